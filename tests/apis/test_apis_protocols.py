"""The wire formats against servers that decode them by themselves."""

import base64

import numpy as np
import pytest
import torch

from dfml.apis.blackbox import AnswersInParts
from dfml.errors import BadAnswer, ConfigError, Garbled
from strangers import decoded, hf, load, model, serving, tf, v2


@pytest.fixture
def images(rng):
    return torch.rand(5, 3, 4, 4, generator=rng)


def grid(images):
    return np.round(images.numpy() * 255) / 255


@pytest.mark.parametrize("form", ["", "input.form = 'json'", "input.form = 'binary'"])
@pytest.mark.parametrize("encoding", ["fp32", "uint8", "png"])
def test_inference_v2(tmp_path, images, form, encoding):
    with serving(v2) as server:
        api = load(tmp_path, server.url, "inference_v2", form, f"input.encoding = '{encoding}'")
        assert isinstance(api, AnswersInParts)
        seen = images.numpy() if encoding == "fp32" else grid(images)
        np.testing.assert_allclose(api(images).numpy(), model(seen), atol=1e-6)
        assert api.spec.levels == (None if encoding == "fp32" else 256)
        assert {request.path for request in server.requests} == {"/v2/models/m/infer"}
        assert len(server.requests) == 1


def test_floats_travel_exactly_whatever_the_form(tmp_path, images):
    with serving(v2) as server:
        answers = [
            load(tmp_path, server.url, "inference_v2", f"input.form = '{form}'")(images) for form in ("json", "binary")
        ]
        sent = np.array(server.requests[0].json()["inputs"][0]["data"], np.float32)
        assert sent.tobytes() == server.requests[1].tail == images.numpy().tobytes()
    assert torch.equal(*answers)


@pytest.mark.parametrize("form", ["row", "column"])
@pytest.mark.parametrize("name", ["", "input.name = 'x'"])
@pytest.mark.parametrize("encoding", ["fp32", "png"])
def test_tf_serving(tmp_path, images, form, name, encoding):
    with serving(tf) as server:
        lines = (f"input.form = '{form}'", name, f"input.encoding = '{encoding}'", "version = '3'")
        answer = load(tmp_path, server.url, "tf_serving", *lines)(images).numpy()
        np.testing.assert_allclose(answer, model(grid(images) if encoding == "png" else images.numpy()), atol=1e-6)
        assert server.requests[0].path == "/v1/models/m/versions/3:predict"


def test_tf_serving_takes_whole_numbers(tmp_path, images):
    with serving(fixed({"predictions": [[1, 0, 0]] * 5})) as server:
        load(tmp_path, server.url, "tf_serving", "input.encoding = 'uint8'")(images)
        sent = np.array(server.requests[0].json()["instances"])
    assert sent.dtype == np.int64
    np.testing.assert_array_equal(sent, np.round(images.numpy() * 255))


@pytest.mark.parametrize("lines", [(), ("input.form = 'json'",), ("output.kind = 'top-k'", "output.top_k = 3")])
def test_huggingface(tmp_path, images, lines):
    with serving(hf) as server:
        api = load(tmp_path, server.url, "huggingface", *lines)
        np.testing.assert_allclose(api(images).numpy(), model(grid(images)), atol=1e-6)
        assert len(server.requests) == 5, "one image a request"
        assert server.requests[0].path == "/models/m"


def test_top_k_answers_become_whole_vectors(tmp_path, images):
    with serving(hf) as server:
        api = load(tmp_path, server.url, "huggingface", "output.kind = 'top-k'", "output.top_k = 1")
        got, exact = api(images).numpy(), model(grid(images))
    for answer, row in zip(got, exact, strict=True):
        rest = (1 - row.max()) / 2
        expected = np.where(row == row.max(), row, rest)
        np.testing.assert_allclose(answer, expected, atol=1e-6)


def test_layout_order_and_normalisation_reach_the_server(tmp_path, images):
    with serving(
        lambda request: (
            200,
            {},
            {"outputs": [{"name": "p", "datatype": "FP32", "shape": [5, 3], "data": [1, 0, 0] * 5}]},
        )
    ) as server:
        lines = (
            "input.layout = 'nhwc'",
            "input.order = 'bgr'",
            "input.mean = [0.1, 0.2, 0.3]",
            "input.std = [0.5, 0.6, 0.7]",
            "input.form = 'binary'",
            "input.name = 'pixels'",
        )
        load(tmp_path, server.url, "inference_v2", *lines)(images)
        (tensor,) = server.requests[0].json()["inputs"]
        assert (tensor["name"], tensor["shape"]) == ("pixels", [5, 4, 4, 3])
        got = np.frombuffer(server.requests[0].tail, "<f4").reshape(5, 4, 4, 3)
    for channel, (mean, std) in enumerate([(0.1, 0.5), (0.2, 0.6), (0.3, 0.7)]):
        np.testing.assert_allclose(got[..., channel], (images[:, 2 - channel].numpy() - mean) / std, atol=1e-6)


def fixed(body):
    return lambda request: (200, {}, body)


def v2_output(datatype, shape, data):
    return {"outputs": [{"name": "p", "datatype": datatype, "shape": shape, "data": data}]}


@pytest.mark.parametrize(
    ("body", "lines", "expected"),
    [
        (v2_output("BYTES", [1, 2], ["0.6:1", "0.2:2:cat"]), (), [0.2, 0.6, 0.2]),
        (v2_output("BYTES", [1, 1], ["0.225865:2"]), (), [(1 - 0.225865) / 2, (1 - 0.225865) / 2, 0.225865]),
        (v2_output("BYTES", [1], ["bee"]), (), [0, 1, 0]),
        (v2_output("INT64", [1], [2]), (), [0, 0, 1]),
        (v2_output("FP32", [3], [0.5, 0.25, 0.25]), (), [0.5, 0.25, 0.25]),
        (v2_output("FP32", [1, 3], [[50, 25, 25]]), ("output.scale = '100'",), [0.5, 0.25, 0.25]),
        (v2_output("FP32", [1, 3, 1, 1], np.log([5, 3, 2]).tolist()), ("output.scale = 'logits'",), [0.5, 0.3, 0.2]),
        (v2_output("FP64", [1, 3], [0.5, 0.3, 0.2]), ("output.kind = 'label'",), [1, 0, 0]),
        (v2_output("FP32", [1, 3], [0.333, 0.333, 0.333]), ("output.decimals = 3",), [0.333, 0.333, 0.333]),
        (v2_output("FP32", [1, 3], [0.33, 0.33, 0.33]), (), [1 / 3, 1 / 3, 1 / 3]),
    ],
)  # fmt: skip
def test_every_kind_of_answer_is_one_probability_vector(tmp_path, body, lines, expected):
    with serving(fixed(body)) as server:
        answer = load(tmp_path, server.url, "inference_v2", *lines)(torch.rand(1, 3, 4, 4))
    np.testing.assert_allclose(answer.numpy(), [expected], atol=1e-6)


def hf_answer(*pairs):
    return [{"label": label, "score": score} for label, score in pairs]


@pytest.mark.parametrize(
    ("body", "lines", "expected"),
    [
        (hf_answer(("cat", 0.2), ("ant", 0.7), ("bee", 0.1)), (), [0.7, 0.1, 0.2]),
        ([hf_answer(("cat", 0.5))], (), [0.25, 0.25, 0.5]),
        (hf_answer(("cat", 50)), ("output.scale = '100'",), [0.25, 0.25, 0.5]),
        (hf_answer(("cat", 0.5)), ("output.missing = 'none'",), [0, 0, 1]),
        (hf_answer(("cat", 0.4)), ("output.kind = 'label'",), [0, 0, 1]),
        ([{"label": "bee"}], (), [0, 1, 0]),
        ([], ("output.threshold = 0.5",), [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_labels_are_put_in_order_by_name(tmp_path, body, lines, expected):
    with serving(fixed(body)) as server:
        answer = load(tmp_path, server.url, "huggingface", *lines)(torch.rand(1, 3, 4, 4))
    np.testing.assert_allclose(answer.numpy(), [expected], atol=1e-6)


@pytest.mark.parametrize(
    ("protocol", "body", "complaint"),
    [
        ("huggingface", hf_answer(("cow", 1.0)), "'cow', which is not in its classes"),
        ("huggingface", hf_answer(("cat", 0.5), ("cat", 0.5)), "'cat' twice"),
        ("huggingface", hf_answer(("cat", 7)), "sum to 1, got a sum of 7"),
        ("huggingface", hf_answer(("cat", -0.1)), "0 or more, got -0.1"),
        ("huggingface", [], "names no class"),
        ("inference_v2", v2_output("FP32", [1, 4], [0.25] * 4), "has 3 classes .* answers 4 scores an image"),
        ("inference_v2", v2_output("BYTES", [1, 1], ["0.9:7"]), "'7', which is not in its classes"),
        ("tf_serving", {"predictions": [[1.0, 0.0]]}, "answers 2 scores an image"),
        ("tf_serving", {"predictions": [["cow"]]}, "'cow', which is not in its classes"),
    ],
)
def test_answers_that_do_not_fit_the_classes_are_refused_and_not_asked_for_again(tmp_path, protocol, body, complaint):
    with serving(fixed(body)) as server:
        api = load(tmp_path, server.url, protocol)
        with pytest.raises(BadAnswer, match=complaint) as caught:
            api(torch.rand(1, 3, 4, 4))
        assert len(server.requests) == 1
    assert str(caught.value).startswith("zoo: ")
    assert "\n" not in str(caught.value)


def torchserve_v2(request):
    """TorchServe's V2 puts the rows of a batch end to end."""
    status, headers, body = v2(request)
    (output,) = body["outputs"]
    return status, headers, {"outputs": [{**output, "shape": [len(output["data"])]}]}


@pytest.mark.parametrize("count", [1, 5])
def test_a_flattened_batch_is_put_into_rows(tmp_path, images, count):
    with serving(torchserve_v2) as server:
        answer = load(tmp_path, server.url, "inference_v2", "input.form = 'json'")(images[:count])
    np.testing.assert_allclose(answer, model(images[:count].numpy()), atol=1e-6)


def test_a_flattened_batch_of_another_width_is_refused_at_once(tmp_path, images):
    with serving(fixed(v2_output("FP32", [10], [0.5] * 10))) as server:
        with pytest.raises(BadAnswer, match=r"has 3 classes .* answers 2 scores an image"):
            load(tmp_path, server.url, "inference_v2", "input.form = 'json'")(images)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("protocol", "body", "expected"),
    [
        ("huggingface", {"cat": 0.2, "ant": 0.7, "bee": 0.1}, [0.7, 0.1, 0.2]),
        ("huggingface", {"cat": 0.5}, [0.25, 0.25, 0.5]),
        ("huggingface", {"label": "cat", "score": 0.5}, [0.25, 0.25, 0.5]),
        ("tf_serving", {"predictions": [{"cat": 0.2, "ant": 0.7, "bee": 0.1}]}, [0.7, 0.1, 0.2]),
        ("tf_serving", {"predictions": [{"cat": 1, "ant": 0, "bee": 0}]}, [0, 0, 1]),
        ("tf_serving", {"predictions": [{"class_id": 1}]}, [0, 1, 0]),
        ("tf_serving", {"predictions": [{"scores": [0.7, 0.1, 0.2]}]}, [0.7, 0.1, 0.2]),
    ],
)
def test_an_object_of_labels_and_scores_is_read(tmp_path, protocol, body, expected):
    with serving(fixed(body)) as server:
        answer = load(tmp_path, server.url, protocol)(torch.rand(1, 3, 4, 4))
    np.testing.assert_allclose(answer.numpy(), [expected], atol=1e-6)


@pytest.mark.parametrize(("protocol", "body"), [("huggingface", {}), ("json", {}), ("huggingface", {"error": "busy"})])
def test_an_object_without_scores_may_be_a_fault_and_is_asked_for_again(tmp_path, protocol, body):
    with serving(fixed(body)) as server:
        with pytest.raises(Garbled):
            load(tmp_path, server.url, protocol)(torch.rand(1, 3, 4, 4))
        assert len(server.requests) == 1 + 4


def own_route(request):
    """A route such as people write: whatever it finds under payload.image, one or many, files or numbers."""
    told = request.json()["payload"]["image"]

    def read(item):
        if isinstance(item, str):
            return decoded(base64.b64decode(item.removeprefix("data:image/png;base64,")))
        return np.array(item, np.float64)

    many = isinstance(told, list) and (isinstance(told[0], str) or np.ndim(told) == 4)
    probs = model(np.stack([read(item) for item in (told if many else [told])])).tolist()
    return 200, {}, {"data": {"probs": probs if many else probs[0]}}


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("how", ["fp32", "png", "data-url"])
def test_a_route_of_ones_own(tmp_path, images, many, how):
    lines = ("input.field = 'payload.image'", "output.scores = 'data.probs'", f"input.many = {str(many).lower()}")
    lines += ("input.encoding = 'png'", f"input.form = '{'data-url' if how == 'data-url' else 'base64'}'") * (
        how != "fp32"
    )
    with serving(own_route) as server:
        answer = load(tmp_path, server.url + "/predict", "json", *lines)(images).numpy()
        assert len(server.requests) == (1 if many else 5)
        assert server.requests[0].path == "/predict"
        if how == "data-url":
            assert b"data:image/png;base64,iVBOR" in server.requests[0].body
    np.testing.assert_allclose(answer, model(images.numpy() if how == "fp32" else grid(images)), atol=1e-6)


@pytest.mark.parametrize(
    ("body", "lines", "expected"),
    [
        ([0.7, 0.1, 0.2], (), [0.7, 0.1, 0.2]),
        ([[0.7, 0.1, 0.2]], (), [0.7, 0.1, 0.2]),
        ({"cat": 0.2, "ant": 0.7, "bee": 0.1}, (), [0.7, 0.1, 0.2]),
        ({"output": [{"label": "cat", "score": 0.5}]}, ("output.scores = 'output'",), [0.25, 0.25, 0.5]),
        ({"y": "bee"}, ("output.scores = 'y'",), [0, 1, 0]),
        ({"y": 2}, ("output.labels = 'y'",), [0, 0, 1]),
        ({"y": ["cat"]}, ("output.labels = 'y'",), [0, 0, 1]),
        ({"y": ["cat", "ant"], "p": [0.6, 0.2]}, ("output.labels = 'y'", "output.scores = 'p'"), [0.2, 0.2, 0.6]),
        ({"y": "cat", "p": 0.6}, ("output.labels = 'y'", "output.scores = 'p'"), [0.2, 0.2, 0.6]),
        ({"r": [{"p": [0.7, 0.1, 0.2]}]}, ("output.scores = 'r.0.p'",), [0.7, 0.1, 0.2]),
        ({"r": [{"p": [0.7, 0.1, 0.2]}]}, ("output.scores = 'r.*.p'", "input.many = true"), [0.7, 0.1, 0.2]),
        (
            [{"y": ["cat"], "p": [60]}],
            ("output.labels = '*.y'", "output.scores = '*.p'", "output.scale = '100'", "input.many = true"),
            [0.2, 0.2, 0.6],
        ),
    ],
)
def test_answers_are_found_where_the_manifest_says(tmp_path, body, lines, expected):
    with serving(fixed(body)) as server:
        answer = load(tmp_path, server.url, "json", *lines)(torch.rand(1, 3, 4, 4))
    np.testing.assert_allclose(answer.numpy(), [expected], atol=1e-6)


@pytest.mark.parametrize(
    ("body", "lines", "complaint"),
    [
        ({"a": 1}, ("output.scores = 'b.c'",), "has nothing at 'b.c', but is .*; correct output.scores"),
        ({"y": ["a", "b"], "p": [1]}, ("output.labels = 'y'", "output.scores = 'p'"), "2 labels, but scores of"),
        ([[1, 0, 0]] * 2, ("input.many = true",), "expected a list of 1 answers at 'the top'"),
        ({"y": None}, ("output.labels = 'y'",), "a label should be a text or a whole number"),
    ],
)
def test_answers_that_are_elsewhere_are_said_to_be(tmp_path, body, lines, complaint):
    with serving(fixed(body)) as server, pytest.raises(BadAnswer, match=complaint):
        load(tmp_path, server.url, "json", "limits.retries = 0", *lines)(torch.rand(1, 3, 4, 4))


@pytest.mark.parametrize(
    ("protocol", "line", "complaint"),
    [
        ("huggingface", "input.field = 'x'", "input.field goes with protocol json only"),
        ("tf_serving", "input.many = true", "input.many goes with protocol json only"),
        ("inference_v2", "output.labels = 'x'", "output.labels goes with protocol json only"),
        ("json", "input.form = 'data-url'", "set input.encoding to png or jpeg"),
        ("json", "input.form = 'row'", "has no meaning for json"),
    ],
)
def test_keys_of_another_protocol_are_refused(tmp_path, protocol, line, complaint):
    with pytest.raises(ConfigError, match=complaint):
        load(tmp_path, "http://host", protocol, line)
