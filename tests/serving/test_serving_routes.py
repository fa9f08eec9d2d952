"""Every protocol and encoding gives the answers of the API itself, bit for bit, and counts them."""

import base64
import io
import json
import struct

import numpy as np
import pytest
from colour_server import CLASSES, SPEC, colours, expected, levels
from PIL import Image

from dfml.apis.local.function import FunctionApi


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels.transpose(1, 2, 0)).save(file, "PNG")
    return file.getvalue()


def b64(pixels):
    return base64.b64encode(png(pixels)).decode()


def answered(client):
    return client.get("/stats").json()


def ask_v2(client, tensor, raw=None, *, binary_output=False, **fields):
    message = {"inputs": [{"name": "image", **tensor}], "parameters": {"binary_data_output": binary_output}, **fields}
    if raw is None:
        return client.post("/v2/models/colours/infer", json=message)
    message["inputs"][0]["parameters"] = {"binary_data_size": len(raw)}
    head = json.dumps(message).encode()
    headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
    return client.post("/v2/models/colours/infer", content=head + raw, headers=headers)


def scores_v2(response):
    assert response.status_code == 200, response.text
    told = response.headers.get("Inference-Header-Content-Length")
    message = json.loads(response.content[: int(told)]) if told else response.json()
    (output,) = message["outputs"]
    assert (output["name"], output["datatype"]) == ("probabilities", "FP32")
    if told:
        raw = response.content[int(told) :]
        assert output["parameters"]["binary_data_size"] == len(raw)
        return np.frombuffer(raw, "<f4").reshape(output["shape"])
    return np.array(output["data"], np.float32).reshape(output["shape"])


def v2_tensors(pixels):
    floats = (pixels / np.float32(255)).astype("<f4")
    files = [png(image) for image in pixels]
    shape = list(pixels.shape)
    return {
        "FP32 in JSON": ({"datatype": "FP32", "shape": shape, "data": floats.ravel().tolist()}, None),
        "FP32 in nested JSON": ({"datatype": "FP32", "shape": shape, "data": floats.tolist()}, None),
        "FP32 in binary": ({"datatype": "FP32", "shape": shape}, floats.tobytes()),
        "UINT8 in JSON": ({"datatype": "UINT8", "shape": shape, "data": pixels.ravel().tolist()}, None),
        "UINT8 in binary": ({"datatype": "UINT8", "shape": shape}, pixels.tobytes()),
        "BYTES in JSON": ({"datatype": "BYTES", "shape": [len(files)], "data": [b64(image) for image in pixels]}, None),
        "BYTES in binary": (
            {"datatype": "BYTES", "shape": [len(files), 1]},
            b"".join(struct.pack("<I", len(file)) + file for file in files),
        ),
    }


@pytest.mark.parametrize("binary_output", [False, True])
@pytest.mark.parametrize("encoding", v2_tensors(levels(1)))
def test_v2_gives_the_bits_of_the_api(serve, encoding, binary_output):
    client, pixels = serve(), levels(3)
    tensor, raw = v2_tensors(pixels)[encoding]
    answer = scores_v2(ask_v2(client, tensor, raw, binary_output=binary_output))
    assert np.array_equal(answer, expected(pixels))
    assert answered(client) == {"answered": 3, "apis": {"colours": {"answered": 3}}}


def test_v2_tells_what_there_is(serve):
    client = serve()
    assert "binary_tensor_data" in client.get("/v2").json()["extensions"]
    assert client.get("/v2/health/live").status_code == client.get("/v2/health/ready").status_code == 200
    (model,) = client.post("/v2/repository/index", json={}).json()
    assert (model["name"], model["state"]) == ("colours", "READY")
    metadata = client.get("/v2/models/colours/versions/1").json()
    assert metadata["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 3, 4, 5]}]
    assert metadata["outputs"] == [{"name": "probabilities", "datatype": "FP32", "shape": [-1, 7]}]
    encodings = ["FP32", "UINT8", "BYTES"]
    assert metadata["parameters"] == {"classes": list(CLASSES), "encodings": encodings, "output": "probs"}
    degraded = serve(bits=8, top_k=3, decimals=2).get("/v2/models/colours").json()["parameters"]
    assert {key: degraded[key] for key in ("encodings", "output", "top_k", "decimals")} == {
        "encodings": ["UINT8", "BYTES"],
        "output": "top-k",
        "top_k": 3,
        "decimals": 2,
    }
    assert client.get("/v2/models/colours/ready").status_code == 200
    assert client.get("/v2/models/colour/ready").status_code == 404


def test_v2_gives_back_the_id_and_output_by_output_wishes(serve):
    tensor, raw = v2_tensors(levels(1))["FP32 in binary"]
    assert ask_v2(serve(), tensor, raw, id="7").json()["id"] == "7"
    wish = [{"name": "probabilities", "parameters": {"binary_data": True}}]
    assert "Inference-Header-Content-Length" in ask_v2(serve(), tensor, raw, outputs=wish).headers


@pytest.mark.parametrize("form", ["channels first", "channels last", "b64", "named b64"])
@pytest.mark.parametrize(("field", "result"), [("instances", "predictions"), ("inputs", "outputs")])
def test_tf_serving_rows_and_columns(serve, form, field, result):
    client, pixels = serve(), levels(2)
    floats = (pixels / np.float32(255)).astype(np.float32)
    images = {
        "channels first": floats.tolist(),
        "channels last": floats.transpose(0, 2, 3, 1).tolist(),
        "b64": [{"b64": b64(image)} for image in pixels],
        "named b64": [{"b64": b64(image)} for image in pixels],
    }[form]
    if form == "named b64":
        images = [{"image": image} for image in images] if field == "instances" else {"image": images}
    answer = client.post("/v1/models/colours:predict", json={field: images}).json()
    assert np.array_equal(np.array(answer[result], np.float32), expected(pixels))
    assert answered(client)["answered"] == 2


def test_tf_serving_tells_its_signature(serve):
    client = serve()
    (status,) = client.get("/v1/models/colours").json()["model_version_status"]
    assert status["state"] == "AVAILABLE"
    metadata = client.get("/v1/models/colours/metadata").json()["metadata"]
    signature = metadata["signature_def"]["signature_def"]["serving_default"]
    sizes = [int(dim["size"]) for dim in signature["inputs"]["image"]["tensor_shape"]["dim"]]
    assert sizes == [-1, 4, 5, 3]


@pytest.mark.parametrize("as_json", [False, True])
def test_hugging_face_gives_the_best_labels_first(serve, as_json):
    client, pixels = serve(), levels(1)
    if as_json:
        body = {"inputs": b64(pixels[0]), "parameters": {"top_k": 3}}
        answer = client.post("/models/colours", json=body).json()
    else:
        answer = client.post("/models/colours", content=png(pixels[0]), headers={"Content-Type": "image/png"}).json()
    truth = sorted(zip(expected(pixels)[0].tolist(), CLASSES, strict=True), reverse=True)[: 3 if as_json else 5]
    assert [(entry["score"], entry["label"]) for entry in answer] == truth


def test_an_upload_of_another_size_or_mode_is_fitted(serve):
    grey = io.BytesIO()
    Image.new("L", (40, 32), 128).save(grey, "PNG")
    answer = serve().post("/models/colours", content=grey.getvalue()).json()
    truth = expected(np.full((1, 3, 4, 5), 128, np.uint8))[0]
    assert answer[0]["score"] == pytest.approx(truth.max(), abs=1e-6)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v2/models/nobody/infer", {}, 404),
        ("/v2/models/colours/versions/2/infer", {}, 404),
        ("/v2/models/colours/infer", {}, 400),
        ("/v2/models/colours/infer", {"inputs": [{"name": "x"}]}, 400),
        (
            "/v2/models/colours/infer",
            {"inputs": [{"name": "image", "shape": [1], "datatype": "FP32", "data": [1]}]},
            400,
        ),
        (
            "/v2/models/colours/infer",
            {"inputs": [{"name": "image", "shape": [-1], "datatype": "BYTES", "data": []}]},
            400,
        ),
        (
            "/v2/models/colours/infer",
            {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "data": ["!"]}]},
            400,
        ),
        (
            "/v2/models/colours/infer",
            {"inputs": [{"name": "image", "shape": [1, 3, 4, 5], "datatype": "FP32", "data": [2.0] * 60}]},
            400,
        ),
        (
            "/v2/models/colours/infer",
            {"inputs": [{"name": "image", "shape": [1, 3, 4, 5], "datatype": "UINT8", "data": [256] * 60}]},
            400,
        ),
        ("/v1/models/colours:predict", {"instances": [], "inputs": []}, 400),
        ("/v1/models/colours:predict", {"instances": [[1, 2], [3]]}, 400),
        ("/v1/models/colours:predict", {"instances": [{"b64": "AAAA"}]}, 400),
        ("/v1/models/colours:predict", [1], 400),
        ("/v1/models/colours:explain", {}, 404),
        ("/models/colours", {"inputs": "AAAA"}, 400),
        ("/models/colours", {"inputs": b64(levels(1)[0]), "parameters": {"top_k": 0}}, 400),
        ("/nowhere", {}, 404),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason_and_not_counted(serve, path, body, status):
    client = serve()
    response = client.post(path, json=body)
    assert response.status_code == status
    assert response.json()["error"]
    assert answered(client)["answered"] == 0


def test_large_batches_are_refused(serve):
    client, pixels = serve(max_batch=2), levels(3)
    tensor, raw = v2_tensors(pixels)["UINT8 in binary"]
    assert ask_v2(client, tensor, raw).status_code == 413
    tensor, raw = v2_tensors(pixels[:2])["UINT8 in binary"]
    assert ask_v2(client, tensor, raw).status_code == 200


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ({"decimals": 2}, 7),
        ({"top_k": 3}, 3),
        ({"top_k": 3, "decimals": 2}, 3),
        ({"label_only": True}, 1),
    ],
)
def test_degraded_answers(serve, config, kept):
    client, pixels = serve(**config), levels(4)
    tensor, raw = v2_tensors(pixels)["UINT8 in binary"]
    vectors = scores_v2(ask_v2(client, tensor, raw))
    for pixel, truth, vector in zip(pixels, expected(pixels), vectors, strict=True):
        order = np.argsort(-truth)[:kept]
        said = np.ones(1) if "label_only" in config else np.round(truth[order], config.get("decimals", 9))
        body = {"inputs": b64(pixel), "parameters": {"top_k": 7}}
        listed = client.post("/models/colours", json=body).json()
        assert [entry["label"] for entry in listed] == [CLASSES[column] for column in order]
        assert np.allclose([entry["score"] for entry in listed], said, atol=1e-6)
        if "decimals" in config:
            assert all(entry["score"] == round(entry["score"], 2) for entry in listed)
        assert np.allclose(vector[order], said, atol=1e-6)
        rest = np.delete(vector, order)
        assert np.allclose(rest, max(0.0, 1 - said.sum()) / max(1, len(rest)), atol=1e-6)


def test_few_bits_are_few_levels(serve):
    client = serve(bits=1)
    tensor, raw = v2_tensors(levels(2))["FP32 in binary"]
    answer = scores_v2(ask_v2(client, tensor, raw))
    assert np.allclose(answer, expected(np.where(levels(2) > 127, 255, 0).astype(np.uint8)), atol=1e-6)


def test_a_slow_model_holds_up_no_other(serve):
    import threading

    started, release = threading.Event(), threading.Event()

    def slow(images):
        started.set()
        assert release.wait(20)
        return colours(images)

    client = serve([FunctionApi(slow, SPEC.with_changes(name="slow")), FunctionApi(colours, SPEC)])
    tensor, raw = v2_tensors(levels(1))["UINT8 in binary"]
    waiting = threading.Thread(target=lambda: client.post("/models/slow", content=png(levels(1)[0])))
    waiting.start()
    assert started.wait(20)
    assert ask_v2(client, tensor, raw).status_code == 200
    assert answered(client)["apis"] == {"slow": {"answered": 0}, "colours": {"answered": 1}}
    release.set()
    waiting.join()
    assert answered(client)["answered"] == 2
