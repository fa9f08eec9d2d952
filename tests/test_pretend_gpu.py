"""Everything on another device than the CPU: nothing mixes devices, nothing comes back unasked, and a seed means the
same. No GPU is needed; `pretend_gpu` explains how."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

from dfml import hardware
from dfml.adaptation.classifier import FewShotClassifier
from dfml.adaptation.heads import HEADS
from dfml.apis.blackbox import ApiSpec
from dfml.apis.local.module import ModuleApi
from dfml.bench.real_maml import RealMamlConfig, meta_train, plan
from dfml.config import override
from dfml.episode import Episode
from dfml.evaluation.metatest import Chunk, TaskProtocol, open_parts, score_chunk
from dfml.evaluation.transductive import HeadConfig, task_scores
from dfml.hardware import Hardware
from dfml.initialisation import Initialisation
from dfml.learning import learn
from dfml.meta.distil import distillation_task
from dfml.meta.replay import meta_gradient
from dfml.meta.tasks import mean_gradient
from dfml.nets import NetSpec, functional
from dfml.nets.functional import Net
from dfml.recovery.choice import recover
from dfml.recovery.inversion import RecoveryConfig
from dfml.rng import stream
from dfml.zoo.training import TrainConfig, accuracy, train
from methods.colour_apis import colour_api
from pretend_gpu import DEVICE, NAME, OnGpu, PretendGpu

SPEC = NetSpec(way=3, size=16, width=4)
GPU = Hardware(DEVICE)


@pytest.fixture
def gpu(monkeypatch):
    real = hardware._find_device
    monkeypatch.setattr(hardware, "_find_device", lambda name: DEVICE if name.startswith(NAME) else real(name))
    with PretendGpu() as pretended:
        yield pretended


def pictures(count, seed=0):
    return torch.rand(count, 3, 16, 16, generator=stream(seed, "pictures"))


def task(seed=0):
    return Episode(
        pictures(6, seed), torch.arange(3).repeat_interleave(2), pictures(9, seed + 1), torch.arange(9) // 3, ("a",) * 3
    )


def same(ours, theirs, *, tolerance=0.0):
    """Equal, name by name, to the last bit or nearly so; both may be anywhere.

    Nearly: on a GPU nobody asks whether a gain is negative, so autograd adds up second derivatives in another order.
    """
    pairs = [(ours[name].cpu(), theirs[name].cpu()) for name in ours]
    return ours.keys() == theirs.keys() and all(torch.allclose(*pair, rtol=tolerance, atol=tolerance) for pair in pairs)


# the pretence itself


def test_the_pretended_gpu_refuses_what_a_gpu_refuses(gpu):
    x = torch.ones(3).to(DEVICE)
    assert x.device == DEVICE
    assert (x + 1).sum().item() == 6
    refused = [
        lambda: x + torch.zeros(3),
        lambda: torch.cat([x, torch.zeros(3)]),
        lambda: torch.zeros(3)[torch.tensor([0]).to(DEVICE)],
        lambda: F.linear(x, torch.zeros(2, 3)),
        lambda: x.normal_(generator=stream(0)),
        lambda: torch.randn(3, generator=stream(0), device=DEVICE),
        lambda: x.numpy(),
    ]
    for attempt in refused:
        with pytest.raises((RuntimeError, TypeError)):
            attempt()


def test_it_computes_what_the_cpu_computes_twice_differentiated(gpu):
    def curvature(x):
        x = x.requires_grad_()
        (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.sum(), x)[0]

    assert curvature(torch.tensor([1.0, 2.0]).to(DEVICE)).tolist() == [6.0, 12.0]
    assert "pow" in gpu.ran


def test_a_tensor_planted_on_the_cpu_is_found(gpu, monkeypatch):
    net = Net(SPEC)
    params = net.init(stream(0), device=DEVICE)
    meta_gradient(net, params, [task().on(DEVICE)])
    whole = functional.normalise
    monkeypatch.setattr(functional, "normalise", lambda x: whole(x) + torch.zeros(3, 1, 1))
    with pytest.raises(RuntimeError, match="one device"):
        meta_gradient(net, params, [task().on(DEVICE)])


# learning


@pytest.mark.parametrize(("arch", "first_order"), [("conv4", False), ("conv4", True), ("resnet10", False)])
def test_a_meta_step_stays_on_the_device(gpu, arch, first_order):
    net = Net(NetSpec(arch=arch, way=3, size=16, width=4))
    tasks = [task(0), task(5)]
    on_cpu = meta_gradient(net, net.init(stream(1)), tasks, inner_steps=2, first_order=first_order)
    params = net.init(stream(1), device=DEVICE)
    there = meta_gradient(net, params, [t.on(DEVICE) for t in tasks], inner_steps=2, first_order=first_order)
    assert gpu.left == []
    assert all(isinstance(gradient, OnGpu) for gradient in there.grads.values())
    assert same(there.grads, on_cpu.grads, tolerance=1e-6)
    assert there.loss == on_cpu.loss


OPEN_GENERATOR = [f"generator.{setting}" for setting in ("images_per_class=12", "filters=4", "latent=8", "lr=0.03")]
METHODS = {
    "random": [],
    "chorus": ["queries=40", "distil.steps=6", "distil.batch=16"],
    "bidf-mkd": ["schedule.visits=3", "schedule.iterations=4"],
    "white-box": ["schedule.visits=1", "schedule.iterations=2"],
    "single-dfkd": ["distil.steps=2"],
    "distill-avg": ["distil.steps=2"],
    "dfme": [],
    "maze": ["extraction.replay_steps=2"],
    "model-fusion": ["fusion.steps=3"],
    "purer": ["iterations=2", "curriculum.patience=1", "data.images_per_class=5"],
    "free": ["rounds=2", "warmup=1", "replays=1", "require_agreement=false", *OPEN_GENERATOR],
}
EXTRACTION = ["rounds=2", "batch=8", "clone_steps=2", "filters=4", "latent=8"]
RECOVERY = [
    "recovery.steps=2",
    "recovery.directions=2",
    "recovery.images_per_class=6",
    "recovery.filters=4",
    "recovery.latent=8",
]
REPLAY = ["replay.shot=2", "replay.query=3", "replay.batch=2", "replay.inner_steps=1"]
BIDF = ["distil.inner_steps=1", "memory.require_agreement=false"]
OPEN = ("white-box", "model-fusion", "purer", "free")


def settings(method):
    small = ["net.width=4", *METHODS[method]]
    small += RECOVERY if method in ("bidf-mkd", "white-box", "single-dfkd", "distill-avg") else []
    small += [f"extraction.{setting}" for setting in EXTRACTION] if method in ("dfme", "maze") else []
    small += REPLAY if method in ("bidf-mkd", "white-box", "purer", "free") else []
    small += BIDF if method in ("bidf-mkd", "white-box") else []
    return small


def apis(method, device="cpu"):
    if method in OPEN:
        spec = ApiSpec(name="open", classes=("a", "b", "c"), image=(3, 16, 16))
        return [ModuleApi(SPEC.build(rng=stream(7)).to(device), spec)]
    return [colour_api("first", seed=1), colour_api("second", way=4, seed=2), colour_api("third", seed=3)]


@pytest.mark.parametrize("method", METHODS)
def test_learning_on_a_device_gives_what_the_cpu_gives(gpu, tmp_path, method):
    ours = learn(apis(method), tmp_path / "cpu", method=method, settings=settings(method))
    assert "convolution" not in gpu.ran
    theirs = learn(apis(method, DEVICE), tmp_path / "gpu", method=method, settings=settings(method), device=NAME)
    assert ("convolution" in gpu.ran) == (method not in ("random", "model-fusion"))
    tolerance = 1e-5 if method in ("bidf-mkd", *OPEN) else 0.0
    assert same(ours.params, theirs.params, tolerance=tolerance)
    assert same(ours.statistics, theirs.statistics, tolerance=tolerance)
    assert not any(isinstance(tensor, OnGpu) for tensor in theirs.params.values())
    assert theirs.provenance["device"] == str(DEVICE)
    assert "device" not in ours.provenance
    assert same(Initialisation.load(tmp_path / "gpu").params, theirs.params)


@pytest.mark.parametrize("method", ["chorus", "bidf-mkd"])
def test_a_run_begun_on_a_device_goes_on_on_another(gpu, tmp_path, method):
    class Enough(Exception):
        pass

    seen = []

    def stop(event):
        seen.append(type(event).__name__)
        if seen.count("Distilled") == 3 or seen.count("Visited") == 2:
            raise Enough

    whole = learn(apis(method), tmp_path / "whole", method=method, settings=settings(method))
    with pytest.raises(Enough):
        learn(apis(method), tmp_path / "run", method=method, settings=settings(method), device=NAME, on_event=stop)
    resumed = learn(apis(method), tmp_path / "run", method=method, settings=settings(method), resume=True)
    assert same(resumed.params, whole.params, tolerance=1e-5)  # because the device only pretends


def test_a_student_saved_on_a_device_goes_on_on_the_cpu(gpu, tmp_path):
    from dfml.methods.chorus.asking import AnswerTable
    from dfml.methods.chorus.student import ChorusDistilConfig, ChorusStudent
    from dfml.methods.chorus.vocabulary import Vocabulary

    net, config = Net(SPEC), ChorusDistilConfig(steps=6, batch=8)
    probs = torch.rand(32, 2, 3, generator=stream(2)).softmax(-1)
    images = (pictures(32) * 255).to(torch.uint8)
    answers = AnswerTable(images, probs, torch.ones(32, 2, dtype=torch.bool), torch.tensor([3, 2]))

    def student(device):
        start, vocabulary = net.init(stream(0), device=device), Vocabulary.apart([3, 2])
        return ChorusStudent(net, start, answers.on(device), config, vocabulary=vocabulary, rng=stream(1))

    there, here = student(DEVICE), student(torch.device("cpu"))
    for _ in range(3):
        assert there.advance() == here.advance()
    assert gpu.left == []
    there.save(tmp_path / "student")
    moved = student(torch.device("cpu"))
    assert moved.load(tmp_path / "student")
    back = student(DEVICE)
    assert back.load(tmp_path / "student")
    for _ in range(3):
        assert moved.advance() == here.advance() == back.advance()
    assert same(moved.params, here.params)
    assert same(back.params, here.params)
    assert same(back.expected(pictures(8).to(DEVICE)).state_dict(), here.expected(pictures(8)).state_dict())


# recovery


@pytest.mark.parametrize(
    ("estimator", "levels"),
    [
        ("sphere", None),
        ("antithetic", None),
        ("orthogonal", None),
        ("subspace", None),
        ("subspace", 256),
        ("exact", None),
    ],
)
def test_recovery_on_a_device_asks_the_same_questions(gpu, estimator, levels):
    spec = ApiSpec(name="ours", classes=("a", "b", "c"), image=(3, 16, 16), levels=levels)
    config = RecoveryConfig(
        estimator=estimator, directions=3, steps=3, images_per_class=4, filters=4, latent=8, early_stop=True
    )
    sets = []
    for device in (torch.device("cpu"), DEVICE):
        net = SPEC.build(rng=stream(4)).to(device)
        student = SPEC.build(rng=stream(5)).eval().requires_grad_(False).to(device)
        api = ModuleApi(net, spec, mean=[0.5] * 3)
        sets.append(recover(api, config, rng=stream(6), size=16, student=student, device=device))
    here, there = sets
    assert isinstance(there.images, OnGpu)
    assert isinstance(there.probs, OnGpu)
    assert torch.equal(here.images, there.images.cpu())
    assert torch.equal(here.probs, there.probs.cpu())
    # What an API answered is looked at on the CPU, and which images have pixels near white or black; no image leaves.
    assert all(len(shape) == 1 or (len(shape) == 2 and shape[1] == 3) for shape in gpu.left[:-2])


def test_the_best_of_a_pool_is_chosen_on_the_device(gpu):
    config = RecoveryConfig(strategy="pool", pool=20, images_per_class=4)
    sets = [
        recover(colour_api("ours"), config, rng=stream(6), size=16, device=device)
        for device in (torch.device("cpu"), DEVICE)
    ]
    assert isinstance(sets[1].images, OnGpu)
    assert torch.equal(sets[0].images, sets[1].images.cpu())


def test_bi_level_distillation_stays_on_the_device(gpu):
    recovered = recover(
        colour_api("ours"), RecoveryConfig(strategy="pool", pool=20, images_per_class=4), rng=stream(6), size=16
    )
    net = Net(SPEC)
    grads = []
    for device in (torch.device("cpu"), DEVICE):
        there = recovered.on(device)
        tasks = [distillation_task(net, there, there)]
        grads.append(mean_gradient(net.init(stream(0), device=device), tasks, inner_lr=0.1, inner_steps=2).grads)
    assert gpu.left == []
    assert same(*grads, tolerance=1e-6)


# using what was learned


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """An initialisation with everything in it, expected answers and statistics."""
    run = tmp_path_factory.mktemp("taught") / "run"
    settings = ["net.width=4", "queries=40", "distil.steps=6", "distil.batch=16"]
    learn([colour_api("a", seed=1), colour_api("b", seed=2)], run, settings=settings)
    return run / "init.safetensors"


@pytest.mark.parametrize("head", HEADS)
def test_every_head_stays_on_the_device(gpu, taught, head):
    init = Initialisation.load(taught)
    moved, net, config = init.on(DEVICE), Net(init.net), HeadConfig(head=head, steps=2)
    scores = task_scores(net, moved.params, task().on(DEVICE), config, expected=moved.expected)
    assert gpu.left == []
    assert torch.equal(scores.cpu(), task_scores(net, init.params, task(), config, expected=init.expected))


@pytest.mark.parametrize("head", HEADS)
def test_a_classifier_fitted_on_a_device_predicts_and_is_saved_as_on_the_cpu(gpu, taught, tmp_path, head):
    support, labels = pictures(6).numpy(), ["x", "y", "z"] * 2
    here = FewShotClassifier(taught, head=head).fit(support, labels)
    there = FewShotClassifier(taught, head=head, device=NAME).fit(support, labels)
    query = pictures(5, seed=1).numpy()
    assert (there.predict_proba(query) == here.predict_proba(query)).all()
    assert "convolution" in gpu.ran
    with _disable_current_modes():  # the exporter traces what runs
        here.save(tmp_path / "here")
        there.save(tmp_path / "there")
    assert (tmp_path / "there/model.onnx").read_bytes() == (tmp_path / "here/model.onnx").read_bytes()
    again = FewShotClassifier.load(tmp_path / "here", device=NAME)
    assert (again.predict_proba(query) == here.predict_proba(query)).all()
    assert (FewShotClassifier.load(tmp_path / "there").predict_proba(query) == here.predict_proba(query)).all()


@pytest.mark.parametrize("inductive", [False, True])
def test_evaluation_on_a_device_gives_the_accuracies_of_the_cpu(gpu, taught, inductive):
    def fractions(hardware):
        protocol = TaskProtocol(way=3, shot=1, tasks=2, inductive=inductive)
        parts = open_parts("glyphs", protocol.part, None)
        return score_chunk(Chunk(taught, protocol, parts, range(2), hardware), lambda done: None)

    here = fractions(Hardware())
    assert "convolution" not in gpu.ran
    assert fractions(GPU) == here
    assert "convolution" in gpu.ran


def test_maml_on_real_images_runs_on_the_device(gpu):
    settings = ["net.width=4", "iterations=1", "replay.shot=1", "replay.query=2", "replay.batch=1"]
    parts = open_parts("glyphs", "train", None)
    config = plan(override(RealMamlConfig(), settings), parts, way=3)
    here, there = (meta_train(config, parts, seed=0, hardware=hardware) for hardware in (Hardware(), GPU))
    assert "convolution" in gpu.ran
    assert same(there.params, here.params, tolerance=1e-5)


def test_a_zoo_is_trained_on_the_device(gpu):
    images, labels = pictures(36), torch.arange(36) % 3
    config = TrainConfig(epochs=1)
    nets = [
        train(SPEC, images, labels, config, seed=0, on_epoch=lambda epoch: None, hardware=hardware)
        for hardware in (Hardware(), GPU)
    ]
    assert gpu.left == []
    assert all(isinstance(p.data, OnGpu) for p in nets[1].parameters())
    assert accuracy(nets[1], images, labels) == accuracy(nets[0], images, labels)
    assert same(nets[1].state_dict(), nets[0].state_dict())
