"""ONNX files: ours against arithmetic done by hand, and those of strangers."""

import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from dfml.apis.blackbox import ApiSpec, rest
from dfml.apis.local import onnx as onnx_room
from dfml.apis.local.onnx import OnnxApi
from dfml.apis.scores import OutputConfig
from dfml.errors import ApiError, BadAnswer, ConfigError
from dfml.nets.export import export_onnx

SPEC = ApiSpec(name="tiny", classes=("yes", "no", "who knows"), image=(2, 4, 4))
MEAN, STD = (0.4, 0.6), (0.5, 0.25)


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3))


@pytest.fixture
def file(net: nn.Module, tmp_path: Path) -> Path:
    export_onnx(net, tmp_path / "tiny.onnx", name=SPEC.name, classes=SPEC.classes, image=SPEC.image, mean=MEAN, std=STD)
    return tmp_path / "tiny.onnx"


@pytest.fixture
def images(rng: torch.Generator) -> Tensor:
    return torch.rand(11, 2, 4, 4, generator=rng)


def softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def by_hand(net: nn.Module, images: Tensor) -> np.ndarray:
    """Normalise, correlate, cut off at zero, weigh, exponentiate: in float64, with loops."""
    kernel, bias, weight, offset = (p.detach().double().numpy() for p in net.parameters())
    x = (images.double().numpy() - np.reshape(MEAN, (1, 2, 1, 1))) / np.reshape(STD, (1, 2, 1, 1))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    maps = np.zeros((len(x), 3, 4, 4))
    for row in range(4):
        for column in range(4):
            window = padded[:, None, :, row : row + 3, column : column + 3]
            maps[:, :, row, column] = (window * kernel).sum((2, 3, 4)) + bias
    return softmax(np.maximum(maps, 0).reshape(len(x), -1) @ weight.T + offset)


def test_the_file_answers_what_arithmetic_says(net: nn.Module, file: Path, images: Tensor) -> None:
    np.testing.assert_allclose(OnnxApi(file, SPEC, batch=4)(images).numpy(), by_hand(net, images), atol=1e-6)


def test_the_file_is_self_contained(net: nn.Module, file: Path) -> None:
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    (given,), (taken,) = model.graph.input, model.graph.output
    assert (given.name, taken.name) == ("images", "probabilities")
    assert given.type.tensor_type.elem_type == TensorProto.FLOAT
    sizes = given.type.tensor_type.shape.dim
    assert sizes[0].dim_param  # free
    assert [d.dim_value for d in sizes[1:]] == [2, 4, 4]


def test_the_file_says_whose_it_is(file: Path) -> None:
    assert OnnxApi(file).spec == SPEC


def test_exporting_twice_gives_the_same_bytes_and_touches_nothing(net: nn.Module, file: Path) -> None:
    net.train()
    again = file.with_name("again.onnx")
    export_onnx(net, again, name=SPEC.name, classes=SPEC.classes, image=SPEC.image, mean=MEAN, std=STD)
    assert again.read_bytes() == file.read_bytes()
    assert net.training
    assert [p.name for p in file.parent.iterdir() if p.suffix == ".part"] == []


def test_it_travels_to_another_process(file: Path, images: Tensor) -> None:
    api = OnnxApi(file, SPEC, threads=2)
    here = api(images)  # the session is open by now, and is left behind
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert torch.equal(pool.submit(api, images).result(), here)


def test_the_number_of_threads_does_not_change_a_bit(file: Path, rng: torch.Generator) -> None:
    spec = OnnxApi(file).spec
    many = torch.rand(200, *spec.image, generator=rng)
    assert torch.equal(OnnxApi(file, threads=1)(many), OnnxApi(file, threads=3)(many))


@pytest.mark.parametrize(("size", "batch"), [(32, 32), (84, 32), (224, 4), (1000, 1)])
def test_large_images_go_through_in_smaller_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, batch: int
) -> None:
    """A batch has at most as many numbers as 32 images of 84 x 84: 84^2 / 224^2 x 32 = 4.5."""
    net, image = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), (3, size, size)
    export_onnx(net, tmp_path / "net.onnx", name="net", classes=("a", "b", "c"), image=image)
    api, sizes = OnnxApi(tmp_path / "net.onnx", threads=1), []
    run = onnx_room._Session.run

    def counted(self: onnx_room._Session, pixels: np.ndarray) -> np.ndarray:
        sizes.append(len(pixels))
        return run(self, pixels)

    monkeypatch.setattr(onnx_room._Session, "run", counted)
    api(torch.zeros(33, *image))
    assert max(sizes) == batch
    assert sum(sizes) == 33


def test_it_answers_the_same_after_a_rest(file: Path, images: Tensor) -> None:
    api = OnnxApi(file)
    before = api(images)
    rest(api)
    assert torch.equal(api(images), before)


def test_a_forked_child_answers_with_a_session_of_its_own(net: nn.Module, file: Path, images: Tensor) -> None:
    """In a process that has no other threads than the API's: pytest itself is never forked."""
    np.save(file.with_name("images.npy"), images.numpy())
    script = Path(__file__).with_name("forking.py")
    subprocess.run([sys.executable, script, file], check=True, timeout=120)
    told = {who: np.load(file.with_name(f"{who}.npy")) for who in ("before", "child", "parent", "grandchild")}
    for answers in told.values():
        np.testing.assert_allclose(answers, by_hand(net, images), atol=1e-6)
    opened = [int(line) for line in file.with_name("opened").read_text().split()]
    assert len(opened) == len(set(opened)) == 3, "each process opens the file, once"


# Files that others wrote. All answer softmax(x W) for images of 2x4x4, or as told.


def stranger(path: Path, *, batch: int | str = "N", dtype: int = TensorProto.FLOAT, kind: str = "probs") -> np.ndarray:
    """Write such a file; return W (32, 3)."""
    weight = np.random.default_rng(1).normal(size=(32, 3))
    wide = weight.astype(np.float32 if dtype == TensorProto.FLOAT else np.float64)
    nodes = [
        helper.make_node("Flatten", ["pixel_values:0"], ["flat"]),
        helper.make_node("MatMul", ["flat", "W"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probs"], axis=1),
        helper.make_node("ArgMax", ["probs"], ["label"], axis=1, keepdims=0),
    ]
    inputs = [helper.make_tensor_value_info("pixel_values:0", dtype, [batch, 2, 4, 4])]
    outputs = [helper.make_tensor_value_info("logits" if kind == "logits" else "probs", dtype, [batch, 3])]
    if kind == "label and probs":
        outputs.insert(0, helper.make_tensor_value_info("label", TensorProto.INT64, [batch]))
    if kind == "two inputs":
        inputs.append(helper.make_tensor_value_info("mask", dtype, [batch, 1]))
    if kind == "two outputs":
        outputs.append(helper.make_tensor_value_info("logits", dtype, [batch, 3]))
    graph = helper.make_graph(nodes, "stranger", inputs, outputs, [numpy_helper.from_array(wide, "W")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return weight


@pytest.mark.parametrize("batch", ["N", 1, 4, 64])
@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE])
@pytest.mark.parametrize("kind", ["probs", "logits", "label and probs"])
def test_files_of_strangers_answer(tmp_path: Path, images: Tensor, batch: int | str, dtype: int, kind: str) -> None:
    weight = stranger(tmp_path / "s.onnx", batch=batch, dtype=dtype, kind=kind)
    expected = softmax(images.numpy().reshape(11, -1).astype(np.float64) @ weight)
    api = OnnxApi(tmp_path / "s.onnx", SPEC, output=OutputConfig(scale="logits") if kind == "logits" else None)
    np.testing.assert_allclose(api(images).numpy(), expected, atol=1e-6)


def test_a_stranger_without_names_gets_numbers(tmp_path: Path) -> None:
    stranger(tmp_path / "model-7.onnx")
    assert OnnxApi(tmp_path / "model-7.onnx").spec == ApiSpec(name="model-7", classes=("0", "1", "2"), image=(2, 4, 4))


def test_forgotten_softmax_is_a_bad_answer(tmp_path: Path, images: Tensor) -> None:
    stranger(tmp_path / "s.onnx", kind="logits")
    with pytest.raises(BadAnswer, match="tiny: expected probabilities"):
        OnnxApi(tmp_path / "s.onnx", SPEC)(images)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("two inputs", "expected one float input .* the file has 2: pixel_values:0 .*, mask"),
        ("two outputs", "expected one float output .* the file has probs .*, logits"),
    ],
)
def test_files_with_other_shapes_are_refused(tmp_path: Path, images: Tensor, kind: str, message: str) -> None:
    stranger(tmp_path / "s.onnx", kind=kind)
    with pytest.raises(ConfigError, match=message):
        OnnxApi(tmp_path / "s.onnx", SPEC)(images)


def test_a_spec_that_does_not_fit_the_file_is_refused(file: Path, images: Tensor) -> None:
    with pytest.raises(ConfigError, match="answers 3 classes, but tiny is described with 2"):
        OnnxApi(file, SPEC.with_changes(classes=("yes", "no")))(images)
    with pytest.raises(ConfigError, match=r"takes images \(2, 4, 4\), but tiny is described with \(2, 8, 8\)"):
        OnnxApi(file, SPEC.with_changes(image=(2, 8, 8)))(images)


def test_missing_and_broken_files_are_refused(file: Path, images: Tensor) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.onnx: there is no such ONNX file"):
        OnnxApi(file.with_name("nowhere.onnx"), SPEC)
    for content in (b"", b"not a model", file.read_bytes()[:-200]):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"tiny.onnx: (not a readable ONNX file|expected one float input)"):
            OnnxApi(file, SPEC)(images)


def test_a_file_that_fails_is_an_api_that_failed(tmp_path: Path, rng: torch.Generator) -> None:
    """The file leaves the size of its images open and cannot take this one."""
    stranger(tmp_path / "s.onnx")
    model = onnx.load(tmp_path / "s.onnx")
    for axis in (2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = "any"
    onnx.save(model, tmp_path / "s.onnx")
    with pytest.raises(ApiError, match=r"tiny: .*s.onnx failed: "):
        OnnxApi(tmp_path / "s.onnx", SPEC.with_changes(image=(2, 6, 6)))(torch.rand(3, 2, 6, 6, generator=rng))
    with pytest.raises(ConfigError, match="leaves image size or class count open"):
        OnnxApi(tmp_path / "s.onnx")


def test_a_missing_package_is_named(
    file: Path, net: nn.Module, images: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigError, match=r"pip install 'dfml\[onnx\]'"):
        OnnxApi(file, SPEC)(images)
    with pytest.raises(ConfigError, match=r"pip install 'dfml\[onnx\]'"):
        export_onnx(net, file, name=SPEC.name, classes=SPEC.classes, image=SPEC.image)
