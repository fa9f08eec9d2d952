"""`dfml apis init`: the manifest that servers' own words come to, whether they say much or little."""

import json
import tomllib

import pytest

from dfml.apis.loading import load_apis
from dfml.apis.remote.discovery import from_tf_metadata, from_v2_metadata
from dfml.cli import main
from strangers import serving, v2

TENSORS = {
    "inputs": [{"name": "pixels", "datatype": "FP32", "shape": [-1, 3, 4, 4]}],
    "outputs": [{"name": "probabilities", "datatype": "FP32", "shape": [-1, 3]}],
}


def talkative(request):
    """A V2 server with three models, one of which has names for its classes."""
    if request.path == "/v2":
        return 200, {}, {"name": "stranger", "extensions": []}
    if request.path == "/v2/repository/index":
        return 200, {}, [{"name": name, "state": "READY"} for name in ("birds", "b/oats", "Birds")]
    if request.path == "/v2/models/birds":
        hints = {"classes": ["ant", "bee", "cat"], "decimals": 3, "output": "top-k", "top_k": 2, "encodings": ["BYTES"]}
        return 200, {}, {"name": "birds", **TENSORS, "parameters": hints}
    if request.path in ("/v2/models/b%2Foats", "/v2/models/Birds"):
        return 200, {}, {"name": "boats", **TENSORS}
    return v2(request) if request.method == "POST" else (404, {}, b"")


def init(capsys, *args):
    status = main(["apis", "init", *args])
    out, err = capsys.readouterr()
    return status, out, err


def test_all_models_of_a_server_come_into_a_manifest_that_loads(capsys, tmp_path):
    with serving(talkative) as server:
        status, text, remarks = init(capsys, server.url)
        assert status == 0
        tables = tomllib.loads(text)
        assert list(tables["apis"]) == ["birds", "b-oats", "Birds-2"]
        assert tables["defaults"]["url"] == server.url
        assert tables["apis"]["birds"]["classes"] == ["ant", "bee", "cat"]
        assert "b-oats: the server tells no class names, only that there are 3" in remarks
        (tmp_path / "apis.toml").write_text(text)
        birds, boats, _ = load_apis(tmp_path)
        assert (birds.spec.output, birds.spec.top_k, birds.spec.decimals, birds.spec.levels) == ("top-k", 2, 3, 256)
        assert (boats.spec.image, boats.spec.levels) == ((3, 4, 4), None)
        assert all(request.path.startswith("/v2") and "infer" not in request.path for request in server.requests)


def test_references_to_secrets_are_kept_as_references(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN", "sesame-open")
    with serving(talkative) as server:
        out = tmp_path / "apis.toml"
        status, text, remarks = init(
            capsys, server.url, "--model", "birds", "--header", "Authorization: Bearer ${TOKEN}", "--out", str(out)
        )
        assert (status, text, remarks) == (0, "", "")
        assert "Bearer ${TOKEN}" in out.read_text()
        assert "sesame" not in out.read_text()
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer sesame-open"}


TF = {
    "metadata": {
        "signature_def": {
            "signature_def": {
                "serving_default": {
                    "inputs": {
                        "x": {
                            "dtype": "DT_FLOAT",
                            "tensor_shape": {"dim": [{"size": "-1"}, {"size": "8"}, {"size": "9"}, {"size": "3"}]},
                        }
                    },
                    "outputs": {"p": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}, {"size": "7"}]}}},
                }
            }
        }
    }
}


def test_tf_serving_tells_shapes_in_its_own_way(capsys):
    def respond(request):
        return (200, {}, TF) if request.path == "/v1/models/m/metadata" else (404, {}, b"")

    with serving(respond) as server:
        status, text, _ = init(capsys, server.url, "--model", "m")
        assert status == 0
        table = tomllib.loads(text)["apis"]["m"]
        assert (table["protocol"], table["image"], table["input"]) == ("tf_serving", [3, 8, 9], {"layout": "nhwc"})
        assert len(table["classes"]) == 7
        status, _, error = init(capsys, server.url, "--model", "other")
        assert (status, error.count("\n")) == (1, 1)
        assert "answers neither at /v2 nor at /v1/models/other, so its protocol cannot be guessed" in error


def test_hugging_face_tells_little(capsys):
    with serving(lambda request: (200, {}, {"config": {"id2label": {"0": "cat", "1": "dog"}}})) as server:
        status, text, remarks = init(capsys, server.url, "--model", "me/m", "--protocol", "huggingface")
    assert status == 0
    table = tomllib.loads(text)["apis"]["me-m"]
    assert (table["model"], table["classes"]) == ("me/m", ["cat", "dog"])
    assert "does not tell the image size" in remarks
    assert "# to do: me-m: the protocol does not tell" in text


@pytest.mark.parametrize("told", [None, [], {}, "x", {"inputs": None}, {"inputs": [{"shape": "?"}], "outputs": [1]}])
def test_whatever_metadata_say_something_comes_out(told):
    for read in (from_v2_metadata, from_tf_metadata):
        entry, left_open = read("http://h", "m", told)
        assert left_open
        assert len(entry.classes) >= 2


def test_problems_are_one_sentence(capsys, tmp_path):
    with serving(lambda request: (404, {}, b"")) as server:
        for args, complaint in [
            ((server.url,), "does not list its models"),
            ((server.url, "--header", "Nonsense"), "--header takes a name and a value"),
            ((server.url, "--header", "A: ${NOT_SET_AT_ALL}"), "needs the environment variable NOT_SET_AT_ALL"),
        ]:
            status, _, error = init(capsys, *args)
            assert (status, error.count("\n")) == (1, 1)
            assert complaint in error
    status, _, error = init(capsys, server.url)  # it is down by now
    assert status == 1
    assert "cannot be reached" in error


def test_the_schema_is_printed(capsys):
    assert main(["apis", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "apis.toml of dfml"


def paths(**known):
    """A server that knows these paths and no other."""

    def respond(request):
        return (200, {}, known[request.path]) if request.path in known else (404, {}, b"")

    return respond


def test_kserve_lists_its_models_elsewhere(capsys):
    respond = paths(
        **{"/v2": {}, "/v2/models": {"models": ["one", "two"]}, "/v2/models/one": TENSORS, "/v2/models/two": {}}
    )
    with serving(respond) as server:
        status, text, _ = init(capsys, server.url)
    assert status == 0
    assert list(tomllib.loads(text)["apis"]) == ["one", "two"]


def test_a_server_that_hides_its_list_is_asked_for_by_name(capsys):
    """PyTriton: everything is there but the list."""
    with serving(paths(**{"/v2": {"name": "triton"}, "/v2/models/m": TENSORS})) as server:
        status, _, error = init(capsys, server.url)
        assert status == 1
        assert (
            "speaks inference_v2 but does not list its models, as many servers do not; name them with --model" in error
        )
        status, text, _ = init(capsys, server.url, "--model", "m")
    assert (status, tomllib.loads(text)["apis"]["m"]["image"]) == (0, [3, 4, 4])


def test_a_model_without_metadata_is_written_down_all_the_same(capsys):
    """TorchServe has no metadata; whoever names a model is not told that it does not exist."""
    with serving(paths(**{"/v2": {}, "/v2/models/m/ready": b""})) as server:
        status, text, remarks = init(capsys, server.url, "--model", "m")
        assert (status, tomllib.loads(text)["apis"]["m"]["protocol"]) == (0, "inference_v2")
        assert "m: the server says nothing of the model m; see that this is its name" in remarks
        status, _, error = init(capsys, server.url, "--model", "other")
        assert status == 1
        assert "says nothing of a model 'other'; if that is its name, add --protocol inference_v2" in error
        status, text, _ = init(capsys, server.url, "--model", "other", "--protocol", "inference_v2")
        assert (status, tomllib.loads(text)["apis"]["other"]["model"]) == (0, "other")
