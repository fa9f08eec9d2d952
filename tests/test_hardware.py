"""Names of devices and precisions, and what mixed precision may change."""

import functools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.func import functional_call

from dfml import hardware as hardware_module
from dfml.adaptation.classifier import FewShotClassifier
from dfml.cli import main, parser
from dfml.episode import Episode
from dfml.errors import ConfigError
from dfml.hardware import CPU, Hardware, Precision, find_hardware
from dfml.initialisation import Initialisation
from dfml.learning import learn
from dfml.meta.replay import meta_gradient
from dfml.nets import NetSpec
from dfml.nets.functional import Net, normalise
from dfml.nets.primitives import conv2d
from dfml.zoo.training import TrainConfig, accuracy, train
from methods.colour_apis import colour_api

MIXED = Hardware(mixed=True)  # not by its name: that would be refused where bfloat16 does not compute
CHORUS = ["net.width=8", "queries=60", "distil.steps=30", "distil.batch=32"]
needs_bfloat16 = pytest.mark.usefixtures("bfloat16")
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens where there is no GPU")


# names


def test_the_default_is_the_reproducible_choice():
    assert find_hardware() == CPU == Hardware(torch.device("cpu"), mixed=False)
    assert CPU.notes == {}
    assert MIXED.notes == {"precision": "mixed"}


@no_gpu
def test_auto_is_the_cpu_where_there_is_no_gpu():
    assert find_hardware("auto").device.type == "cpu"


def test_devices_are_found_by_number(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_hardware("cuda:1").device == torch.device("cuda:1")
    assert find_hardware("auto").device.type == find_hardware("cuda").device.type == "cuda"
    with pytest.raises(ConfigError, match="the last of 2 is cuda:1"):
        find_hardware("cuda:2")


def test_a_gpu_is_fed_by_one_process_unless_more_are_asked_for():
    gpu = Hardware(torch.device("cuda"))
    assert (gpu.workers(None), gpu.workers(3)) == (1, 3)
    assert (CPU.workers(None), CPU.workers(3)) == (None, 3)


VERBS = {
    "learn": ["learn", "apis.toml", "--out", "run"],
    "evaluate": ["evaluate", "run"],
    "adapt": ["adapt", "run", "--support", "images", "--out", "classifier"],
    "predict": ["predict", "classifier", "image.png"],
    "bench": ["bench", "tab:ss"],
    "zoo build": ["zoo", "build", "--out", "zoo"],
}


@no_gpu
@pytest.mark.parametrize("verb", ["learn", "evaluate", "bench", "zoo build"])
@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("cuda", "--device cuda was asked for, but this PyTorch"),
        ("cuda:1", "--device cuda:1 was asked for, but this PyTorch"),
        ("banana", "unknown device 'banana'; choose cpu, cuda, cuda:1 or auto"),
        ("cuda:x", "unknown device 'cuda:x'"),
    ],
)
def test_a_device_that_is_not_there_is_one_sentence(capsys, tmp_path, monkeypatch, verb, device, said):
    monkeypatch.chdir(tmp_path)
    assert main([*VERBS[verb], "--device", device]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_precision_is_one_sentence(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*VERBS["learn"], "--precision", "half"]) == 1
    assert capsys.readouterr().err == "dfml: unknown precision 'half'; choose one of full, mixed\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_computes_takes_a_device(capsys, verb):
    with pytest.raises(SystemExit):
        main([*verb.split(), "--help"])
    told = capsys.readouterr().out
    assert "--device" in told
    assert ("--precision" in told) == (verb not in ("adapt", "predict"))


@no_gpu
def test_a_classifier_says_so_too(rng):
    spec = NetSpec(way=2, size=16, width=4)
    classifier = FewShotClassifier(Initialisation(Net(spec).init(rng), spec), device="cuda")
    with pytest.raises(ConfigError, match="finds no CUDA device"):
        classifier.fit(torch.rand(4, 3, 16, 16, generator=rng), [0, 0, 1, 1])


def test_the_commands_of_the_documentation_are_understood():
    text = (Path(__file__).parent.parent / "docs/gpu.md").read_text()
    commands = re.findall(r"^dfml (.*?)(?: +#.*)?$", text, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        assert parser().parse_args(shlex.split(command)).device == "cuda"


# processors without bfloat16

KILLED = """
import os, resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no file of its memory
os.kill(os.getpid(), signal.SIGILL)
"""


@pytest.fixture
def processor(monkeypatch):
    """A function that makes this processor one on which the trial is another program."""

    def become(trial):
        monkeypatch.setattr(hardware_module, "_TRIAL", trial)
        untried = functools.cache(hardware_module.bfloat16_fault.__wrapped__)
        monkeypatch.setattr(hardware_module, "bfloat16_fault", untried)

    return become


@pytest.mark.parametrize("verb", ["learn", "evaluate", "bench", "zoo build"])
def test_a_processor_that_bfloat16_kills_is_one_sentence(processor, capsys, tmp_path, monkeypatch, verb):
    processor(KILLED)
    monkeypatch.chdir(tmp_path)
    assert main([*VERBS[verb], "--precision", "mixed"]) == 1
    assert capsys.readouterr().err == (
        "dfml: --precision mixed was asked for, but products in bfloat16 fail on this processor "
        "(a process that tried them was ended by SIGILL); take --precision full\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("trial", "said"),
    [
        ("raise RuntimeError('no kernel')", r"\(a process that tried them failed: RuntimeError: no kernel\)"),
        ("raise SystemExit(3)", r"\(a process that tried them failed: exit code 3\)"),
        ("import time; time.sleep(60)", r"\(a process that tried them did not end within 0.5 s\)"),
    ],
)
def test_other_failures_are_told_too(processor, monkeypatch, trial, said):
    processor(trial)
    if "sleep" in trial:
        monkeypatch.setattr(hardware_module, "_TRIAL_SECONDS", 0.5)
    with pytest.raises(ConfigError, match=said):
        find_hardware("cpu", "mixed")


def test_without_a_python_to_start_bfloat16_is_not_trusted(processor, monkeypatch):
    processor("")
    monkeypatch.setattr("dfml.hardware.sys.executable", "/nowhere/python")
    with pytest.raises(ConfigError, match=r"no process could be started to try them: .*/nowhere/python"):
        find_hardware("cpu", "mixed")


def test_bfloat16_is_tried_once_and_only_where_it_is_needed(processor, monkeypatch, tmp_path):
    processor(f"open({str(tmp_path / 'trials')!r}, 'a').write('x')")
    find_hardware()
    find_hardware("auto", "full")
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: 1)
        assert find_hardware("cuda", "mixed").mixed
    assert not (tmp_path / "trials").exists()
    assert find_hardware("cpu", "mixed") == find_hardware("cpu", "mixed") == MIXED
    assert (tmp_path / "trials").read_text() == "x"


def test_no_test_of_bfloat16_ends_pytest_where_it_kills(tmp_path):
    """This file's tests of mixed precision, on such a processor: each skips, and none gets as far as a product."""
    (tmp_path / "deadly.py").write_text(
        "import os, signal\n"
        "import torch\n"
        "from dfml import hardware\n"
        f"hardware._TRIAL = {KILLED!r}\n"
        "torch.autocast = lambda *a, **k: os.kill(os.getpid(), signal.SIGILL)\n"
    )
    paths = [str(tmp_path), *sys.path]
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "deadly", "-p", "no:cacheprovider", __file__]
    result = subprocess.run(
        [*command, "-k", "mixed_ or autocast"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "NO BFLOAT16: a process that tried them was ended by SIGILL" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("6 skipped, ")


# mixed precision


@needs_bfloat16
def test_a_convolution_under_autocast_is_rounded_and_differentiable_twice(rng):
    x = torch.randn(2, 3, 8, 8, generator=rng, requires_grad=True)
    weight = torch.randn(4, 3, 3, 3, generator=rng, requires_grad=True)

    def derivatives():
        out = conv2d(x, weight, padding=1)
        first = torch.autograd.grad(out.square().sum(), (x, weight), create_graph=True)
        second = torch.autograd.grad([g.square().sum() for g in first], (x, weight))
        return [t.detach() for t in (out, *first, *second)]

    exact = derivatives()
    with torch.autocast("cpu", torch.bfloat16):
        rough = derivatives()
    for ours, theirs in zip(rough, exact, strict=True):
        assert ours.dtype == torch.float32
        off = (ours - theirs).norm() / theirs.norm()
        assert 1e-4 < off < 2e-2  # bfloat16 has 8 binary digits: 0.4 %


@needs_bfloat16
def test_a_mixed_meta_gradient_is_no_rougher_than_pytorchs_own_autocast(rng):
    spec = NetSpec(way=3, size=32, width=8)
    images = torch.rand(60, 3, 32, 32, generator=rng)
    task = Episode(images[:15], torch.arange(15) // 5, images[15:], torch.arange(45) // 15, ("a", "b", "c"))
    params, module = Net(spec).init(rng), spec.build(rng=rng, batch_norm="batch")

    def pytorchs(params, images):
        with torch.autocast("cpu", torch.bfloat16):
            return functional_call(module, params, (normalise(images),)).float()

    def gradient(model):
        result = meta_gradient(model, params, [task], inner_steps=1)
        assert all(g.dtype == torch.float32 for g in result.grads.values())
        return torch.cat([g.flatten() for g in result.grads.values()])

    exact, ours, theirs = (gradient(model) for model in (Net(spec), Net(spec, mixed=True), pytorchs))
    off, off_theirs = ((g - exact).norm() / exact.norm() for g in (ours, theirs))
    assert 1e-3 < off < 1.5 * off_theirs
    assert torch.cosine_similarity(ours, exact, dim=0) > 0.95


@needs_bfloat16
def test_learning_in_mixed_precision_is_near_and_leaves_float32(tmp_path):
    apis = [colour_api("a", seed=1), colour_api("b", seed=2)]
    losses: dict[Precision, list[float]] = {"full": [], "mixed": []}
    for precision, kept in losses.items():

        def on_event(event, kept=kept):
            if type(event).__name__ == "Distilled":
                kept.append(event.objective)

        learned = learn(apis, tmp_path / precision, settings=CHORUS, precision=precision, on_event=on_event)
        assert all(p.dtype == torch.float32 for p in learned.params.values())
        assert learned.provenance.get("precision", "full") == precision
    assert losses["mixed"] != losses["full"]
    assert losses["mixed"] == pytest.approx(losses["full"], rel=0.1)
    with pytest.raises(ConfigError, match="another config"):  # precision is a setting; the device is none
        learn(apis, tmp_path / "mixed", settings=CHORUS, resume=True)


@needs_bfloat16
def test_bi_level_learning_runs_in_mixed_precision(tmp_path):
    settings = [
        "net.width=4",
        "recovery.steps=2",
        "recovery.directions=2",
        "recovery.images_per_class=6",
        "recovery.filters=4",
        "recovery.latent=8",
        "replay.shot=2",
        "replay.query=3",
        "replay.batch=2",
        "memory.require_agreement=false",
        "schedule.visits=1",
        "schedule.iterations=3",
    ]
    apis = [colour_api("a", seed=1)]
    exact, rough = (
        learn(apis, tmp_path / precision, method="bidf-mkd", settings=settings, precision=precision)
        for precision in ("full", "mixed")
    )
    assert any(not torch.equal(exact.params[name], rough.params[name]) for name in exact.params)
    for name, p in rough.params.items():
        assert p.dtype == torch.float32
        assert bool(p.isfinite().all())
        assert (p - exact.params[name]).abs().max() < 0.02  # Adam took 3 steps of 0.001 from the same place


@needs_bfloat16
def test_an_api_trained_in_mixed_precision_is_as_good(rng):
    labels = torch.arange(180) % 3
    images = torch.randn(180, 3, 16, 16, generator=rng) + labels.view(-1, 1, 1, 1) - 1.0
    spec, config = NetSpec(way=3, size=16, width=8), TrainConfig(epochs=2)
    nets = [
        train(spec, images, labels, config, seed=0, on_epoch=lambda epoch: None, hardware=hardware)
        for hardware in (CPU, MIXED)
    ]
    assert all(p.dtype == torch.float32 for p in nets[1].parameters())
    assert any(not torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))
    assert accuracy(nets[0], images, labels) > 0.95
    assert accuracy(nets[1], images, labels) > 0.95


@needs_bfloat16
def test_the_command_line_learns_and_evaluates_in_mixed_precision(tmp_path, capsys):
    zoo, run = str(tmp_path / "zoo"), str(tmp_path / "run")
    mixed = ["--precision", "mixed", "--device", "auto"]
    train = ["--apis", "1", "--width", "4", "--epochs", "1", "--images-per-class", "8", "--workers", "1"]
    assert main(["zoo", "build", *train, *mixed, "--out", zoo]) == 0
    assert main(["learn", zoo, *(f"--set={setting}" for setting in CHORUS), *mixed, "--out", run]) == 0
    assert main(["evaluate", run, "--tasks", "2", "--shot", "1", "--head", "prototype", "--json", *mixed]) == 0
    told = capsys.readouterr().out
    (result,) = json.loads(told[told.index("[\n  {") :])
    assert result["precision"] == "mixed"
    assert 0 <= result["mean"] <= 100
    assert 'precision = "mixed"' in (tmp_path / "run/config.toml").read_text()
    assert 'precision = "mixed"' in (tmp_path / "zoo/zoo.toml").read_text()
