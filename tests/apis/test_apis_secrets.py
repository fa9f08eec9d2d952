"""A secret goes to its server and nowhere else: not into a file, an output, an error or a process list."""

import copy
import os
import pickle
import subprocess
import sys

import pytest

from dfml.apis.loading import load_apis
from dfml.apis.manifest import read_manifest
from dfml.apis.remote.secrets import Redactor, Secret, expand
from dfml.errors import ConfigError
from strangers import CLASSES, serving, v2

SECRET = 'hunter2/+ "s3same" token-äpfel'
WORDS = ("hunter2", "s3same", "token-")


def manifest(folder, url):
    (folder / "apis.toml").write_text(
        f"[defaults]\nprotocol = 'inference_v2'\nurl = '{url}/${{PATH_KEY}}'\nimage = [3, 8, 8]\n"
        f"classes = {list(CLASSES)}\nheaders = {{ Authorization = 'Bearer ${{API_KEY}}' }}\nlimits.retries = 1\n"
        "budget = 40\n[apis.one]\nmodel = 'a'\n[apis.two]\nmodel = 'b'\n"
    )
    return folder / "apis.toml"


def echo(request):
    """A server that shouts back what it was told, in every way it can think of."""
    told = request.headers.get("authorization", "")
    if "/a/" in request.path:
        return 422, {"X-Echo": "x"}, f"{told} {request.path} {told.upper()} {told!r}".encode("latin-1")
    return 401, {}, {"error": f"{told} is not allowed at {request.path}"}


def leaks(text):
    return [word for word in (*WORDS, "key-in-the-path") if word in text.lower()]


def test_a_failing_run_shows_no_secret_anywhere(tmp_path):
    environment = {**os.environ, "API_KEY": "hunter2/+s3same-token-1", "PATH_KEY": "key-in-the-path"}
    with serving(echo) as server:
        path = manifest(tmp_path, server.url)
        out = tmp_path / "run"
        command = [sys.executable, "-m", "dfml", "learn", str(path), "--out", str(out)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        sent = [request for request in server.requests if request.method == "POST"]
        assert sent
        assert all(request.headers["authorization"] == "Bearer hunter2/+s3same-token-1" for request in sent)
        assert all(request.path.startswith("/key-in-the-path/") for request in sent)
        probed = subprocess.run(
            [sys.executable, "-m", "dfml", "probe", str(path)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == probed.returncode == 1
    assert "***" in done.stdout + done.stderr, "the server's words are shown, without the secrets in them"
    assert "Traceback" not in done.stderr
    assert not leaks(done.stdout + done.stderr + probed.stdout + probed.stderr + " ".join(command))
    files = [file for file in out.rglob("*") if file.is_file()]
    assert {"events.jsonl", "config.toml"} <= {file.name for file in files}
    for file in files:
        assert not leaks(file.read_bytes().decode("latin-1")), file


def test_a_secret_hides_wherever_python_would_show_it(tmp_path, monkeypatch):
    secret = Secret(SECRET)
    assert secret.reveal() == SECRET
    for text in (repr(secret), str(secret), f"{secret}", f"{secret!r}", f"{secret:>9}", repr({"a": [secret]})):
        assert not leaks(text)
    with pytest.raises(TypeError):
        vars(secret)
    with pytest.raises(TypeError, match="does not travel"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        copy.deepcopy(secret)
    monkeypatch.setenv("API_KEY", "hunter2-s3same")
    monkeypatch.setenv("PATH_KEY", "nothing")
    with serving(v2) as server:
        api = load_apis(manifest(tmp_path, server.url))[0]
        entry = read_manifest(tmp_path).entries["one"]
    assert not leaks(repr(api) + repr(vars(api)) + repr(api.spec) + repr(entry))
    assert "Authorization" not in repr(entry)


def test_echoes_are_blotted_out_in_all_spellings():
    redact = Redactor([f"Bearer {SECRET}"])
    for echo in (
        SECRET,
        f"Bearer {SECRET}",
        SECRET.upper(),
        "hunter2%2F%2B",
        "token-%C3%A4pfel",
        "token-\\u00e4pfel",
        '\\"s3same\\"',
    ):
        assert not leaks(redact(f"no: {echo}.")), echo
    assert redact("nothing to hide") == "nothing to hide"
    assert Redactor([])("all") == "all"


def test_a_missing_variable_is_one_sentence():
    assert expand("a ${X} b", {"X": "1\n"}, where="here") == "a 1 b"
    assert expand("no $X, no {X}", {}, where="here") == "no $X, no {X}"
    with pytest.raises(ConfigError, match="here needs the environment variable X, which is not set; export it"):
        expand("${X}", {}, where="here")


def test_an_address_that_is_none_is_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setenv("API_KEY", "k")
    monkeypatch.setenv("PATH_KEY", "hunter2-s3same")
    with pytest.raises(ConfigError, match="is no address") as caught:
        load_apis(manifest(tmp_path, "nonsense"))
    assert not leaks(str(caught.value))


def test_a_header_that_http_forbids_is_not_repeated(tmp_path, monkeypatch):
    import torch

    monkeypatch.setenv("API_KEY", "hunter2\r\nX-Injected: 1")
    monkeypatch.setenv("PATH_KEY", "p")
    with serving(v2) as server:
        api = load_apis(manifest(tmp_path, server.url))[0]
        with pytest.raises(ConfigError, match="characters that HTTP forbids") as caught:
            api(torch.rand(1, 3, 8, 8))
        assert not server.requests
    assert not leaks(str(caught.value))
    assert caught.value.__cause__ is None


def test_no_library_below_writes_the_address_into_a_log(tmp_path, monkeypatch, caplog):
    import torch

    monkeypatch.setenv("API_KEY", "k-of-the-zoo")
    monkeypatch.setenv("PATH_KEY", "key-in-the-path")
    caplog.set_level("DEBUG")
    with serving(v2) as server:
        path = manifest(tmp_path, server.url)
        path.write_text(path.read_text().replace("[3, 8, 8]", "[3, 4, 4]"))
        load_apis(path)[0](torch.rand(1, 3, 4, 4))
        assert "/key-in-the-path/" in server.requests[0].path
    assert not leaks(caplog.text)
