"""One contract, every backend: what holds for a network holds for a forest and for three lines of NumPy."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor, nn

from dfml.apis.blackbox import ApiSpec, BlackBox, WhiteBox
from dfml.apis.local.function import FunctionApi
from dfml.apis.local.module import ModuleApi
from dfml.apis.local.onnx import OnnxApi
from dfml.errors import ApiError, BadAnswer, ConfigError, Unreachable
from dfml.nets import NetSpec
from dfml.nets.export import export_onnx
from dfml.rng import stream

SPEC = ApiSpec(name="toy", classes=("ant", "bee", "cat", "dog", "elk"), image=(3, 32, 32))
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)


def network() -> nn.Module:
    return NetSpec(arch="conv4", way=5, size=32, width=8).build(rng=stream(0, "toy"))


def module_api(_: Path) -> BlackBox:
    return ModuleApi(network(), SPEC, mean=MEAN, std=STD, batch=7)


def onnx_api(folder: Path) -> BlackBox:
    told: dict[str, Any] = {"name": SPEC.name, "classes": SPEC.classes, "image": SPEC.image}
    export_onnx(network(), folder / "toy.onnx", **told, mean=MEAN, std=STD)
    return OnnxApi(folder / "toy.onnx", SPEC, batch=7)


def forest_api(_: Path) -> BlackBox:
    images = np.random.default_rng(0).random((60, 3 * 32 * 32), np.float32)
    forest = RandomForestClassifier(5, max_depth=4, random_state=0).fit(images, np.arange(60) % 5)
    return FunctionApi(lambda x: forest.predict_proba(x.reshape(len(x), -1)), SPEC)


def numpy_api(_: Path) -> BlackBox:
    def brightness(images: np.ndarray) -> list[list[float]]:
        images *= 0.5  # careless on purpose: it works in place
        scores = np.exp(np.arange(5) * images.mean((1, 2, 3))[:, None])
        return (scores / scores.sum(1, keepdims=True)).tolist()

    return FunctionApi(brightness, SPEC)


ALL_APIS = [module_api, onnx_api, forest_api, numpy_api]


@pytest.fixture(params=ALL_APIS, ids=lambda make: make.__name__, scope="module")
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BlackBox:
    torch.set_num_threads(1)
    made: BlackBox = request.param(tmp_path_factory.mktemp("api"))
    return made


@pytest.fixture
def images(rng: torch.Generator) -> Tensor:
    return torch.rand(20, 3, 32, 32, generator=rng)


def test_it_answers_one_probability_vector_an_image(api: BlackBox, images: Tensor) -> None:
    assert isinstance(api, BlackBox)
    answer = api(images)
    assert answer.shape == (20, 5)
    assert answer.dtype == torch.float32
    assert not answer.requires_grad
    assert (answer >= 0).all()
    torch.testing.assert_close(answer.sum(1), torch.ones(20))


def test_an_answer_does_not_depend_on_the_others_in_the_batch(api: BlackBox, images: Tensor) -> None:
    one_by_one = torch.cat([api(image[None]) for image in images])
    torch.testing.assert_close(api(images), one_by_one, atol=1e-6, rtol=1e-5)


def test_no_images_get_no_answers(api: BlackBox) -> None:
    assert api(torch.zeros(0, 3, 32, 32)).shape == (0, 5)
    assert api(torch.zeros(0, 1, 50, 20)).shape == (0, 5)


def test_images_of_any_size_fit(api: BlackBox) -> None:
    """A plain colour stays what it is at any size, so its answer does, too."""
    colours = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.3, 0.7, 0.1]]).view(3, 3, 1, 1)
    expected = api(colours.expand(-1, -1, 32, 32))
    for height, width in ((32, 64), (84, 84), (9, 31)):
        torch.testing.assert_close(api(colours.expand(-1, -1, height, width)), expected, atol=1e-5, rtol=1e-4)


def test_grey_images_are_colour_images_without_colour(api: BlackBox, images: Tensor) -> None:
    grey = images[:, :1]
    assert torch.equal(api(grey), api(grey.expand(-1, 3, -1, -1).contiguous()))


def test_any_float_type_is_an_image(api: BlackBox, images: Tensor) -> None:
    eighths = (images * 8).round() / 8  # exact in every float type
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        assert torch.equal(api(eighths.to(dtype)), api(eighths))


def test_the_callers_images_stay_as_they_are(api: BlackBox, images: Tensor) -> None:
    before = images.clone()
    api(images)
    assert torch.equal(images, before)


def test_answers_can_be_targets_of_a_loss(api: BlackBox, images: Tensor) -> None:
    logits = torch.zeros(20, 5, requires_grad=True)
    nn.functional.kl_div(logits.log_softmax(1), api(images), reduction="batchmean").backward()
    assert logits.grad is not None


def test_no_gradient_leaks_to_the_images(api: BlackBox, images: Tensor) -> None:
    assert not api(images.requires_grad_()).requires_grad


BAD_IMAGES: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    (r"from nan to nan", lambda x: torch.where(x > 0.99, torch.nan, x)),
    (r"from -1 to", lambda x: x * 2 - 1),
    (r"to 255", lambda x: (x * 255).round().clamp(max=254) + (x == x.max()) * (255 - (x * 255).round().clamp(max=254))),
    (r"to inf", lambda x: torch.where(x == x.max(), torch.inf, x)),
    (r"divide 8-bit", lambda x: (x * 255).to(torch.uint8)),
    (r"\(n, c, h, w\), got \(3, 32, 32\)", lambda x: x[0]),
    (r"\(n, c, h, w\), got \(20, 3, 0, 32\)", lambda x: x[:, :, :0]),
    (r"2 channels", lambda x: x[:, :2]),
]


@pytest.mark.parametrize(("message", "spoil"), BAD_IMAGES, ids=[message for message, _ in BAD_IMAGES])
def test_what_is_no_image_is_refused(
    api: BlackBox, images: Tensor, message: str, spoil: Callable[[Tensor], Tensor]
) -> None:
    with pytest.raises(ConfigError, match=message):
        api(spoil(images))


def test_only_a_module_shows_gradients(api: BlackBox) -> None:
    assert isinstance(api, WhiteBox) == isinstance(api, ModuleApi)


# What is special to single backends.


def test_a_module_gives_the_gradient_of_its_answer(images: Tensor) -> None:
    """For p = softmax(W (x - mean) / std) the gradient is dp_c / dx = p_c (W_c - sum_j p_j W_j) / std."""
    torch.manual_seed(0)
    linear = nn.Linear(3 * 32 * 32, 5)
    api = ModuleApi(nn.Sequential(nn.Flatten(), linear), SPEC, mean=MEAN, std=STD)
    image = images[:1].clone().requires_grad_()
    probs = api.differentiable(image)
    torch.testing.assert_close(probs.detach(), api(images[:1]))
    (gradient,) = torch.autograd.grad(probs[0, 2], image)
    weight, p = linear.weight.detach(), probs[0].detach()
    expected = (p[2] * (weight[2] - p @ weight)).view(1, 3, 32, 32) / torch.tensor(STD).view(1, 3, 1, 1)
    torch.testing.assert_close(gradient, expected)


def test_training_the_callers_module_changes_no_answer(images: Tensor) -> None:
    net = network().train()
    api = ModuleApi(net, SPEC)
    before = api(images)
    assert net.training
    assert all(p.requires_grad for p in net.parameters())
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(1.0)
    assert torch.equal(api(images), before)


def test_a_module_api_travels_by_pickle(images: Tensor) -> None:
    api = ModuleApi(network(), SPEC, mean=MEAN, std=STD)
    assert torch.equal(pickle.loads(pickle.dumps(api))(images), api(images))


@pytest.mark.parametrize(("mean", "std"), [((0.5,), STD), (MEAN, (0.2, 0.2)), (MEAN, (0.2, 0.0, 0.2))])
def test_normalisation_takes_one_number_a_channel(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="toy: mean and std take 3 numbers, one a channel, std above 0"):
        ModuleApi(network(), SPEC, mean=mean, std=std)


BAD_ANSWERS: list[tuple[str, Callable[[np.ndarray], object]]] = [
    (r"expected 5 classes \(ant, bee, cat, dog, elk\), got 4 scores", lambda x: np.full((len(x), 4), 0.25)),
    (r"got shape \(19, 5\)", lambda x: np.full((len(x) - 1, 5), 0.2)),
    (r"got shape \(20,\)", lambda x: np.zeros(len(x))),
    (r"got nan", lambda x: np.where(np.arange(5) == 3, np.nan, 0.2) + np.zeros((len(x), 1))),
    (r"got inf", lambda x: np.where(np.arange(5) == 3, np.inf, 0.2) + np.zeros((len(x), 1))),
    (r"got -0.2", lambda x: np.array([0.6, -0.2, 0.2, 0.2, 0.2]) + np.zeros((len(x), 1))),
    (r"a sum of 0.5", lambda x: np.full((len(x), 5), 0.1)),
    (r"a sum of 100", lambda x: np.full((len(x), 5), 20)),
    (r"a str that is no array of numbers", lambda x: "teapot"),
    (r"a list that is no array of numbers", lambda x: [[1.0], [0.5, 0.5]]),
    (r"a NoneType that is no array of numbers|got shape \(\)", lambda x: None),
]


@pytest.mark.parametrize(("message", "function"), BAD_ANSWERS, ids=[message for message, _ in BAD_ANSWERS])
def test_what_is_no_answer_is_refused_by_name(
    images: Tensor, message: str, function: Callable[[np.ndarray], object]
) -> None:
    with pytest.raises(BadAnswer, match="toy: .*" + message):
        FunctionApi(function, SPEC)(images)


def test_a_function_that_fails_is_an_api_that_failed(images: Tensor) -> None:
    def broken(_: np.ndarray) -> None:
        raise KeyError("weights")

    def offline(_: np.ndarray) -> None:
        raise Unreachable("toy: nobody answers")

    with pytest.raises(ApiError, match="toy: its function failed with KeyError: 'weights'"):
        FunctionApi(broken, SPEC)(images)
    with pytest.raises(Unreachable, match="nobody answers"):
        FunctionApi(offline, SPEC)(images)
