"""APIs as parcels: what comes out answers as what went in, with nothing of the sender's machine left."""

import pickle
import subprocess
import sys

import pytest
import torch

import strangers
import tflite_files
from dfml.apis.blackbox import ApiSpec, innermost
from dfml.apis.degrade import LabelOnly
from dfml.apis.loading import load_apis
from dfml.apis.local.exported import ExportedApi
from dfml.apis.local.onnx import OnnxApi
from dfml.nets import NetSpec
from dfml.nets.export import EndToEnd, export_onnx
from dfml.rng import stream

pytestmark = pytest.mark.ray
SPEC = ApiSpec(name="net", classes=("a", "b", "c"), image=(3, 16, 16))


def pack(api):
    pytest.importorskip("ray", reason="NO RAY: install the extra, or run `make test-ray`")
    from dfml.engine.parcel import pack

    return pack(api)


@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_a_file_travels_inside(tmp_path, rng, kind):
    net = NetSpec(arch="conv4", way=3, size=16, width=4).build(rng=stream(0, "net"))
    images = torch.rand(5, 3, 16, 16, generator=rng)
    if kind == "onnx":
        export_onnx(net, tmp_path / "net.onnx", name=SPEC.name, classes=SPEC.classes, image=SPEC.image)
        api = LabelOnly(OnnxApi(tmp_path / "net.onnx", SPEC))
    else:
        batch = {"images": {0: torch.export.Dim("n", min=1, max=64)}}
        program = torch.export.export(
            EndToEnd(net, SPEC.image[0], None, None, name=SPEC.name), (images,), dynamic_shapes=batch
        )
        torch.export.save(program, tmp_path / "net.pt2")
        api = LabelOnly(ExportedApi(tmp_path / "net.pt2", SPEC))
    parcel, expected = pack(api), innermost(api)(images)
    for file in tmp_path.iterdir():
        file.unlink()
    there = pickle.loads(pickle.dumps(parcel)).open()
    assert there.spec == api.spec
    assert torch.equal(innermost(there)(images), expected)
    again = pack(there).open()  # whoever has it can send it on
    assert torch.equal(innermost(again)(images), expected)


def test_a_tflite_file_travels_inside(tmp_path, rng):
    tflite_files.write(tmp_path / "net.tflite", kind=tflite_files.UINT8)
    (tmp_path / "apis.toml").write_text(
        "[apis.net]\nprotocol = 'tflite'\nfile = 'net.tflite'\nclasses = ['a', 'b', 'none']\nimage = [3, 4, 4]\n"
        "output.background = 'none'\n"
    )
    (api,) = load_apis(tmp_path)
    images = torch.rand(9, 3, 4, 4, generator=rng)
    parcel, expected = pack(api), api(images)
    for file in tmp_path.iterdir():
        file.unlink()
    there = pickle.loads(pickle.dumps(parcel)).open()
    assert there.spec == api.spec
    assert torch.equal(there(images), expected)
    assert torch.equal(pack(there).open()(images), expected)


def test_a_function_of_a_manifest_travels_to_where_its_module_is_not(tmp_path):
    (tmp_path / "birds.py").write_text(
        "import numpy as np\nSCALE = 2.0\ndef helper(x):\n    return SCALE * x.mean((1, 2, 3)) / 2\n"
        "def predict(x):\n    return np.stack([1 - helper(x), helper(x)], 1)\n"
    )
    (tmp_path / "apis.toml").write_text(
        "[apis.birds]\nprotocol = 'python'\nfunction = 'birds:predict'\nclasses = ['a', 'b']\nimage = [3, 4, 4]\n"
    )
    (api,) = load_apis(tmp_path / "apis.toml")
    (tmp_path / "parcel").write_bytes(pickle.dumps(pack(api)))
    (tmp_path / "birds.py").unlink()
    sys.modules.pop("birds")
    code = (
        "import pickle, sys, torch\n"
        "api = pickle.load(open(sys.argv[1], 'rb')).open()\n"
        "print(api(torch.full((1, 3, 4, 4), 0.25)).tolist())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "parcel")]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert told.strip() == "[[0.75, 0.25]]"


def test_a_server_with_secrets_travels_and_shows_none(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_KEY", "s3cret-of-the-zoo")
    heard = []

    def respond(request):
        heard.append(request.headers["key"])
        return strangers.v2(request)

    images = torch.full((2, 3, 4, 4), 0.5)
    with strangers.serving(respond) as server:
        api = strangers.load(tmp_path, server.url, "inference_v2", "headers.Key = '${ZOO_KEY}'")
        parcel = pack(api)
        assert "s3cret" not in repr(parcel) + str(parcel)
        there = parcel.open()
        assert torch.equal(there(images), api(images))
        assert set(heard) == {"s3cret-of-the-zoo"}
        with pytest.raises(TypeError, match="a secret does not travel"):
            pickle.dumps(api)  # by any other way it stays at home


def test_a_successor_waits_before_it_sends(monkeypatch):
    from dfml.apis.remote import patience
    from dfml.apis.remote.limits import Limits

    now = [100.0]
    monkeypatch.setattr("dfml.apis.remote.patience.time.monotonic", lambda: now[0])
    gate, waits = patience.Gate(Limits(rate=0.5)), []
    monkeypatch.setattr(patience, "_wait", lambda stopped, seconds: waits.append(seconds))
    gate.take_over()
    gate.enter(patience.Attempt())
    gate.enter(patience.Attempt())
    assert waits == [2.0, 4.0]
