"""Local files and functions that a manifest names: the same network gives the same answers, whatever holds it."""

import pytest
import torch
from torch import nn

from dfml.apis.blackbox import ApiSpec
from dfml.apis.loading import load_apis
from dfml.apis.local.exported import ExportedApi
from dfml.apis.local.function import FunctionApi
from dfml.apis.local.module import ModuleApi
from dfml.apis.remote.api import RemoteApi
from dfml.errors import ApiError, ConfigError

SPEC = ApiSpec(name="toy", classes=("a", "b", "c"), image=(3, 4, 4))
ENTRY = "classes = ['a', 'b', 'c']\nimage = [3, 4, 4]\n"


def network():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    with torch.no_grad():
        for number, weights in enumerate(net.parameters()):
            weights.copy_(torch.linspace(-1, 1, weights.numel()).view_as(weights) * (1 + number))
    return net.eval()


def export(path, net, batch):
    sizes = {"free": {0: torch.export.Dim("n", min=1)}, "few": {0: torch.export.Dim("n", min=2, max=4)}, "fixed": None}
    shapes = None if sizes[batch] is None else (sizes[batch],)
    torch.export.save(torch.export.export(net, (torch.rand(3, 3, 4, 4),), dynamic_shapes=shapes), path)


@pytest.mark.parametrize("batch", ["free", "few", "fixed"])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_an_exported_program_answers_as_its_module(tmp_path, rng, batch, count):
    export(tmp_path / "toy.pt2", network(), batch)
    (tmp_path / "apis.toml").write_text(
        f"[apis.toy]\nprotocol = 'torch'\nfile = 'toy.pt2'\noutput.scale = 'logits'\n{ENTRY}"
    )
    (api,) = load_apis(tmp_path)
    images = torch.rand(count, 3, 4, 4, generator=rng)
    torch.testing.assert_close(api(images), ModuleApi(network(), SPEC)(images))


def test_input_settings_hold_for_local_apis(tmp_path, rng):
    """Normalised, channels last and blue first: a function that undoes all that gets the images back."""
    (tmp_path / "undo.py").write_text(
        "import numpy as np\n"
        "seen = []\n"
        "def predict(x):\n"
        "    seen.append((x * [0.5, 0.6, 0.7] + [0.1, 0.2, 0.3]).transpose(0, 3, 1, 2)[:, ::-1])\n"
        "    return np.log([[5.0, 3.0, 2.0]] * len(x))\n"
    )
    (tmp_path / "apis.toml").write_text(
        f"[apis.toy]\nprotocol = 'python'\nfunction = 'undo:predict'\n{ENTRY}output.scale = 'logits'\n"
        "input = { layout = 'nhwc', order = 'bgr', mean = [0.1, 0.2, 0.3], std = [0.5, 0.6, 0.7] }\n"
    )
    (api,) = load_apis(tmp_path)
    images = torch.rand(2, 3, 4, 4, generator=rng)
    torch.testing.assert_close(api(images), torch.tensor([[0.5, 0.3, 0.2]] * 2))
    import undo

    torch.testing.assert_close(torch.from_numpy(undo.seen[0].copy()).float(), images)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("protocol = 'torch'\nfile = 'none.pt2'", "there is no such .pt2 file"),
        ("protocol = 'torch'", "protocol torch needs file"),
        ("protocol = 'onnx'", "has no file to load"),
        ("protocol = 'python'\nfunction = 'nowhere_at_all:f'", "cannot import nowhere_at_all:f"),
        ("protocol = 'python'\nfunction = 'json'", "should be module:function"),
        ("protocol = 'python'\nfunction = 'sys:version'", "is a str, expected a function"),
        ("protocol = 'tf_serving'\nurl = 'http://h'", "needs model"),
        ("protocol = 'huggingface'", "needs url"),
        ("protocol = 'huggingface'\nurl = 'http://h'\ninput.encoding = 'fp32'", "huggingface takes files"),
        ("protocol = 'onnx'\nfile = 'x'\ninput.encoding = 'png'", "onnx takes numbers"),
        ("protocol = 'inference_v2'\nurl = 'http://h'\nmodel = 'm'\ninput.form = 'row'", "has no meaning for"),
        ("protocol = 'onnx'\nfile = 'x'\ninput.mean = [0.5]", "takes 3 numbers, one a channel, not 1"),
        ("limits.rate = 0", "limits.rate must be above 0"),
        ("limits.concurency = 3", "unknown key 'concurency'; did you mean 'concurrency'"),
        ("output.kind = 'top-k'", "also needs output.top_k"),
        ("labels = 'names.txt'", "classes and labels say the same twice"),
        ("budget = -1", "budget and price must be 0 or more"),
    ],
)  # fmt: skip
def test_entries_that_cannot_be_right_get_one_sentence(tmp_path, lines, complaint):
    (tmp_path / "apis.toml").write_text(f"[apis.toy]\n{ENTRY}{lines}\n")
    with pytest.raises(ConfigError, match=complaint) as caught:
        load_apis(tmp_path)
    assert "\n" not in str(caught.value)


def test_class_names_come_from_a_file(tmp_path):
    (tmp_path / "names.txt").write_text("a\n\n  b c \n")
    (tmp_path / "apis.toml").write_text(
        "[defaults]\nimage = [3, 4, 4]\nlimits.rate = 2\n[apis.toy]\nprotocol = 'huggingface'\nurl = 'http://h'\n"
        "labels = 'names.txt'\nlimits.concurrency = 1\n"
    )
    (api,) = load_apis(tmp_path)
    assert api.spec.classes == ("a", "b c")
    assert isinstance(api, RemoteApi)
    assert (api.limits.rate, api.limits.concurrency) == (2, 1), "groups are inherited key by key"


def test_rubbish_is_no_exported_program(tmp_path):
    (tmp_path / "toy.pt2").write_bytes(b"rubbish")
    with pytest.raises(ConfigError, match=r"not a readable \.pt2 file"):
        ExportedApi(tmp_path / "toy.pt2", SPEC)(torch.rand(1, 3, 4, 4))
    export(tmp_path / "toy.pt2", network(), "free")
    wrong = ApiSpec(name="toy", classes=("a", "b", "c"), image=(1, 4, 4))
    with pytest.raises(ApiError, match=r"toy: .*failed"):
        ExportedApi(tmp_path / "toy.pt2", wrong)(torch.rand(1, 1, 4, 4))


def test_two_manifests_have_modules_and_helpers_of_one_name(tmp_path):
    for number, name in enumerate(("first", "second")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "its_helper.py").write_text(f"ANSWER = [{1 - number}.0, {number}.0]\n")
        (folder / "birds_of_two.py").write_text(
            "from its_helper import ANSWER\nLOADED = []\ndef predict(x):\n    return [ANSWER] * len(x)\n"
        )
        (folder / "apis.toml").write_text(
            "[apis.birds]\nprotocol = 'python'\nfunction = 'birds_of_two:predict'\nclasses = ['a', 'b']\n"
            "image = [3, 4, 4]\n"
        )
    images = torch.rand(1, 3, 4, 4)
    first, second, again = (load_apis(tmp_path / name)[0] for name in ("first", "second", "first"))
    assert first(images).tolist() == again(images).tolist() == [[1.0, 0.0]]
    assert second(images).tolist() == [[0.0, 1.0]]
    assert isinstance(first, FunctionApi)
    assert isinstance(again, FunctionApi)
    assert first.function is again.function, "what a module holds is not loaded twice"
