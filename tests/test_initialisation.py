"""The product's file: it comes back as it went, and anything else is refused in one sentence."""

import json
from dataclasses import asdict

import pytest
import torch
from safetensors.torch import load_file, save_file

from dfml.errors import ArtifactError
from dfml.files import save_tensors
from dfml.initialisation import Initialisation
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.rng import stream


@pytest.fixture
def init(rng):
    spec = NetSpec(width=4, way=3)
    return Initialisation(
        Net(spec).init(rng), spec, {"s.running_mean": torch.ones(2)}, {"method": "bidf-mkd", "seed": 3}
    )


def rewritten(path, change_tensors=lambda t: t, **header):
    """The file with some things changed by somebody else's hand."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        metadata = file.metadata() | header
    save_file(change_tensors(load_file(path)), path, metadata=metadata)


def test_it_comes_back_as_it_went(init, tmp_path):
    init.save(tmp_path / "init.safetensors")
    for path in (tmp_path, tmp_path / "init.safetensors"):
        back = Initialisation.load(path)
        assert back.net == init.net
        assert back.provenance == init.provenance
        assert all(torch.equal(back.params[name], init.params[name]) for name in init.params)
        assert torch.equal(back.statistics["s.running_mean"], torch.ones(2))


def test_no_pickle_is_inside(init, tmp_path):
    init.save(tmp_path / "init.safetensors")
    assert b"pickle" not in (tmp_path / "init.safetensors").read_bytes()
    assert int.from_bytes((tmp_path / "init.safetensors").read_bytes()[:8], "little") < 100_000  # a safetensors header


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda p: p.unlink(), "does not exist"),
        (lambda p: p.write_bytes(b"rubbish"), "damaged or no safetensors"),
        (lambda p: p.write_bytes(p.read_bytes()[:-100]), "damaged or no safetensors"),
        (lambda p: rewritten(p, version="9"), "format 9, this dfml reads format 1"),
        (lambda p: rewritten(p, dfml="checkpoint"), "holds checkpoint, not a dfml initialisation"),
        (lambda p: rewritten(p, about="{"), "damaged description"),
        (lambda p: rewritten(p, lambda t: t | {"virus": torch.ones(1)}), "extra tensor 'virus'"),
        (lambda p: rewritten(p, lambda t: t | {"params.more": torch.ones(1)}), "extra weight 'more'"),
        (
            lambda p: rewritten(p, lambda t: {k: v for k, v in t.items() if "head.bias" not in k}),
            "lacks weight 'head.bias'",
        ),
        (lambda p: rewritten(p, lambda t: t | {"params.head.bias": torch.ones(9)}), r"shape \(9,\), expected \(3,\)"),
        (lambda p: rewritten(p, about=json.dumps({"net": {"widht": 3}})), "unknown key 'widht'"),
    ],
)
def test_a_spoilt_file_gets_one_sentence(init, tmp_path, spoil, complaint):
    path = tmp_path / "init.safetensors"
    init.save(path)
    spoil(path)
    from dfml.errors import DfmlError

    with pytest.raises(DfmlError, match=complaint) as caught:
        Initialisation.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_written_is_explained(init, tmp_path):
    with pytest.raises(ArtifactError, match="cannot write"):
        init.save(tmp_path / "nowhere" / "init.safetensors")


def test_a_file_of_the_first_versions_is_read(tmp_path):
    """They called what a student expects its APIs to answer `voices`, and counted answers instead of weighing them."""
    spec = NetSpec(width=4, size=16, way=2)
    init = Initialisation(Net(spec).init(stream(0)), spec)
    heads = {
        "weight": torch.zeros(6, 4),
        "bias": torch.zeros(6),
        "centre": torch.zeros(4),
        "mean": torch.ones(2, 3) / 3,
    }
    tensors = {f"params.{name}": p for name, p in init.params.items()} | {f"voices.{n}": t for n, t in heads.items()}
    save_tensors(tmp_path / "init.safetensors", tensors, kind="initialisation", version=1, about={"net": asdict(spec)})
    read = Initialisation.load(tmp_path)
    assert read.expected is not None
    assert not read.expected.weighed
