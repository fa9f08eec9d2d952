"""Chorus: what it asks, whom it believes, and that it learns something."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from colour_apis import Flaky, colour_api
from hypothesis import given
from hypothesis import strategies as st

from dfml.apis.blackbox import ApiSpec
from dfml.apis.degrade import LabelOnly, Quantised
from dfml.apis.local.function import FunctionApi
from dfml.config import override
from dfml.errors import ConfigError, DfmlError
from dfml.events import ApiFailed, ApiWeighed, Remark, Step
from dfml.images.prior import prior
from dfml.learning import learn
from dfml.methods.chorus import method as chorus
from dfml.methods.chorus import student
from dfml.methods.chorus.asking import IMAGES_A_CALL, AnswerTable, ask_all, surest
from dfml.methods.chorus.sharing import shared_out, spread_for
from dfml.methods.chorus.student import ChorusDistilConfig, ChorusStudent
from dfml.methods.chorus.trust import Foreseen, believed, foreseen, foreseen_directions, softened
from dfml.methods.chorus.vocabulary import Vocabulary
from dfml.methods.footprint import feature_count
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.recovery.recovered import RecoveredSet
from dfml.rng import derive_seed, stream
from outcomes import events_of, same

SMALL = ["queries=300", "net.arch=conv4", "net.width=8", "distil.steps=60", "distil.batch=64"]


def test_few_apis_are_asked_the_same_images_once_each(apis, tmp_path):
    learn(apis, tmp_path / "run", settings=SMALL)
    assert [api.answered for api in apis] == [300, 300]


@pytest.mark.parametrize(("budget", "per_api", "each"), [(500, None, 250), (None, 120, 120), (500, 120, 120)])
def test_a_budget_lowers_the_number_of_images(apis, tmp_path, budget, per_api, each):
    learn(apis, tmp_path / "run", settings=SMALL, budget=budget, budget_per_api=per_api)
    assert [api.answered for api in apis] == [each, each]


@pytest.mark.parametrize(
    ("settings", "budgets", "queries", "steps"),
    [
        ([], {}, 1000, 1000),  # the fewest
        ([], {"budget_per_api": 300}, 300, 1000),
        ([], {"budget_per_api": 4000}, 4000, 2812),  # every picture 90 times, 128 at once
        ([], {"budget": 9000}, 4500, 3164),
        ([], {"budget_per_api": 70_000}, 5000, 3516),
        (["queries=4000"], {"budget_per_api": 5000}, 4000, 2812),
        (["queries=9000", "distil.steps=50"], {}, 9000, 50),
        (["own_images=7000"], {}, 8000, 5625),
        (["own_images=200"], {}, 1200, 1000),
        (["own_images=200"], {"budget_per_api": 100}, 100, 1000),
    ],
)
def test_a_budget_is_spent_and_updates_follow_the_images(apis, settings, budgets, queries, steps):
    specs = [api.spec for api in apis]
    wanted = override(chorus.ChorusConfig(), settings)
    planned = chorus.plan(wanted, specs, **{"budget": None, "budget_per_api": None, **budgets})
    assert (planned.queries, planned.distil.steps) == (queries, steps)
    assert planned.distil.power == (0.5 if wanted.own_images else 1.0)


@pytest.mark.parametrize(
    ("count", "queries", "spread", "steps"),
    [
        (100, 500, 4, 1406),  # 90 views of 2,000 pictures, 128 at once
        (100, 1000, 4, 2812),
        (100, 5000, 4, 4836),  # 2,828 times the cube root of 5
        (10_000, 1000, 2, 2828),  # an update hears 256 of them
    ],
)
def test_many_apis_hear_of_more_pictures_and_updates_follow_these(apis, count, queries, spread, steps):
    wanted = chorus.ChorusConfig(queries=queries)
    planned = chorus.plan(wanted, [apis[0].spec] * count, budget=None, budget_per_api=None)
    assert (planned.spread, planned.distil.steps) == (spread, steps)


@pytest.mark.parametrize(("taken", "drawn"), [(16, 16), (28, 28), (32, 32), (84, 84), (96, 96), (224, 48)])
def test_small_apis_are_asked_about_pictures_of_their_own_size(apis, taken, drawn):
    spec = replace(apis[0].spec, image=(3, taken, taken))
    planned = chorus.plan(chorus.ChorusConfig(), [spec] * 3, budget=None, budget_per_api=None)
    assert (planned.picture_size, planned.net.size) == (drawn, min(taken, 48))
    wanted = chorus.ChorusConfig(picture_size=40, net=replace(planned.net, size=24))
    assert chorus.plan(wanted, [spec] * 3, budget=None, budget_per_api=None).picture_size == 40


def large_api(seen):
    """Of 64 pixels; `seen` gets what it is asked about."""

    def answer(images):
        seen.append(images)
        light = images.mean((1, 2, 3))
        return np.stack([light, 1 - light], 1)

    return FunctionApi(answer, ApiSpec(name="large", classes=("a", "b"), image=(3, 64, 64)))


def test_an_api_sees_every_pixel_and_the_student_its_own_size(tmp_path):
    seen = []
    settings = [*SMALL, "queries=50", "distil.steps=3", "net.largest=32"]
    learned = learn([large_api(seen)], tmp_path / "run", settings=settings)
    drawn = prior(50, seed=derive_seed(0, "pool"), size=64, kind="mixed")
    assert np.array_equal(np.concatenate(seen), (drawn.float() / 255).numpy())
    assert learned.net.size == 32


def test_a_run_from_before_pictures_had_a_size_goes_on_as_it_began(tmp_path):
    settings, seen = [*SMALL, "queries=50", "net.size=32"], []

    def stop(event):
        if isinstance(event, Step) and event.stage == "distilling":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn([large_api([])], tmp_path / "run", settings=[*settings, "picture_size=32"], on_event=stop)
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("picture_size = 32\n", ""))
    learn([large_api(seen)], tmp_path / "run", settings=settings, resume=True)
    assert seen == []


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("distil.steps=-3", "distil.steps must be 0 or more, not -3"),
        ("distil.batch=0", "distil.batch must be above 0, not 0"),
        ("distil.lr=0", "distil.lr must be above 0, not 0.0"),
        ("distil.parts=65", "distil.parts=65 cannot be: a batch has 64 pictures"),
        ("distil.held_out=1", "distil.held_out must be from 0 to below 1, not 1.0"),
        ("distil.weigh_at=2", "distil.weigh_at must be from 0 to 1, not 2.0"),
        ("distil.shift=16", "distil.shift must be from 0 to below 16 pixels of 32, not 16"),
        ("net.width=0", "net.width must be above 0, not 0"),
        ("net.way=-1", "net.way must be 0 or more, not -1"),
    ],
)
def test_a_number_that_cannot_be_is_told_before_anything_is_asked(apis, tmp_path, setting, told):
    with pytest.raises(ConfigError, match=told):
        learn(apis, tmp_path / "run", settings=[*SMALL, setting])
    assert [api.answered for api in apis] == [0, 0]


def test_the_strong_student_is_larger_and_said_to_take_longer(apis):
    specs = [api.spec for api in apis]
    thorough, strong = (
        chorus.plan(chorus.PRESETS[name], specs, budget=None, budget_per_api=None) for name in ("thorough", "strong")
    )
    assert chorus.cost(strong, specs) == chorus.cost(thorough, specs), "it asks no more"
    assert feature_count(strong.net.spec) == 3 * feature_count(thorough.net.spec)
    assert chorus.effort(strong, specs) > 3 * chorus.effort(thorough, specs)
    assert chorus.footprint(strong, specs).memory > chorus.footprint(thorough, specs).memory


def test_what_a_budget_leaves_is_said(apis, tmp_path):
    remarks = []
    learn(
        apis,
        tmp_path / "run",
        settings=SMALL,
        budget_per_api=400,
        on_event=lambda e: remarks.append(e.text) if isinstance(e, Remark) else None,
    )
    assert remarks == ["the budget allows 400 queries an API, 300 are asked; --set queries=400 asks them all"]


def test_a_budget_that_says_nothing_is_refused(apis, tmp_path):
    with pytest.raises(ConfigError, match="2 APIs need at least 40 in all"):
        learn(apis, tmp_path / "run", settings=SMALL, budget=39)


@pytest.mark.parametrize("every", [0.0, 1e9], ids=["from-a-checkpoint", "from-the-ledger"])
def test_a_stopped_run_resumes_to_the_same_bits_and_pays_nothing_twice(apis, tmp_path, monkeypatch, every):
    monkeypatch.setattr(chorus, "CHECKPOINT_SECONDS", every)
    whole = learn(apis, tmp_path / "whole", settings=SMALL)

    def stop(event):
        if isinstance(event, Step) and event.stage == "distilling" and event.done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(apis, tmp_path / "run", settings=SMALL, on_event=stop)
    steps = []
    resumed = learn(apis, tmp_path / "run", settings=SMALL, resume=True, on_event=steps.append)
    assert same(whole, resumed)
    assert [api.answered for api in apis] == [600, 600]
    distilled = [e.done for e in steps if isinstance(e, Step) and e.stage == "distilling"]
    assert distilled[0] == (20 if every == 0 else 1)


def test_a_run_from_before_pictures_were_shared_goes_on_as_it_began(apis, tmp_path, monkeypatch):
    whole = learn(apis, tmp_path / "whole", settings=SMALL)

    def stop(event):
        if isinstance(event, Step) and event.stage == "distilling":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(apis, tmp_path / "run", settings=SMALL, on_event=stop)
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("spread = 1\n", ""))
    monkeypatch.setattr(chorus, "spread_for", lambda *about, **more: 3)
    assert same(whole, learn(apis, tmp_path / "run", settings=SMALL, resume=True))
    assert [api.answered for api in apis] == [600, 600], "nothing is paid for again"


def test_a_checkpoint_of_other_answers_is_not_gone_on_with(apis, tmp_path, monkeypatch):
    """An API that was down and is back brings new answers; the student must begin anew with them."""
    monkeypatch.setattr(chorus, "CHECKPOINT_SECONDS", 0.0)
    whole = learn(apis, tmp_path / "whole", settings=SMALL)

    def stop(event):
        if isinstance(event, Step) and event.stage == "distilling" and event.done == 20:
            raise KeyboardInterrupt

    apis[1].up = False
    with pytest.raises(KeyboardInterrupt):
        learn(apis, tmp_path / "run", settings=SMALL, on_event=stop)
    apis[1].up = True
    assert same(whole, learn(apis, tmp_path / "run", settings=SMALL, resume=True))


def test_a_checkpoint_of_another_version_costs_time_and_no_query(apis, tmp_path, monkeypatch):
    monkeypatch.setattr(chorus, "CHECKPOINT_SECONDS", 0.0)
    whole = learn(apis, tmp_path / "whole", settings=SMALL)

    def stop(event):
        if isinstance(event, Step) and event.stage == "distilling" and event.done == 20:
            raise KeyboardInterrupt

    with monkeypatch.context() as before:
        before.setattr(student, "VERSION", student.VERSION - 1)
        with pytest.raises(KeyboardInterrupt):
            learn(apis, tmp_path / "run", settings=SMALL, on_event=stop)
    assert same(whole, learn(apis, tmp_path / "run", settings=SMALL, resume=True))
    assert [api.answered for api in apis] == [600, 600]


def test_a_run_keeps_what_a_report_shows(apis, tmp_path):
    learn(apis, tmp_path / "run", settings=SMALL)
    told = events_of(tmp_path / "run")
    assert [(e["api"], e["classes"]) for e in told if e["event"] == "ApiJoined"] == [
        (f"api-{i}", ["class 0", "class 1", "class 2"]) for i in range(2)
    ]
    for api, e in zip(apis, [e for e in told if e["event"] == "ApiHeard"], strict=True):
        labels = api(prior(300, seed=derive_seed(0, "pool"), size=16, kind="mixed").float() / 255).argmax(1).tolist()
        shares = np.array([labels.count(label) for label in range(3)]) / 300
        assert (e["api"], e["answers"]) == (api.spec.name, 300)
        assert e["label_entropy"] == pytest.approx(-sum(p * np.log2(p) for p in shares if p), abs=1e-3)
    curve = [(e["iteration"], e["objective"]) for e in told if e["event"] == "Distilled"]
    assert [iteration for iteration, _ in curve] == list(range(60)), "fewer steps than points: every one is kept"
    assert curve[-1][1] < curve[0][1]
    kept = RecoveredSet.load(tmp_path / "run" / "recovered" / "api-1.safetensors")
    assert torch.allclose(kept.probs, apis[1](kept.images), atol=1e-6), "the answers are those to these very images"


def test_the_surest_images_of_a_class(rng):
    images = torch.randint(0, 256, (50, 3, 8, 8), generator=rng, dtype=torch.uint8)
    probs = torch.rand(50, 2, 4, generator=rng).softmax(-1)
    asked = torch.ones(50, 2, dtype=torch.bool)
    asked[:10, 1] = False  # API 1 has never seen the first ten
    spec = ApiSpec(name="b", classes=("x", "y", "z"), image=(3, 8, 8))
    kept = surest(AnswerTable(images, probs, asked, torch.tensor([4, 3])), 1, spec, count=2, classes=2)
    assert kept.targets.tolist() == [0, 0, 1, 1]
    assert kept.probs.shape == (4, 3)
    for target in (0, 1):
        best = sorted(range(10, 50), key=lambda row: -float(probs[row, 1, target]))[:2]
        assert torch.equal((kept.images[kept.targets == target] * 255).round().to(torch.uint8), images[best])


def test_an_api_that_does_not_answer_delays_nobody(apis, tmp_path):
    apis[1].up = False
    failed = []
    learn(
        apis, tmp_path / "run", settings=SMALL, on_event=lambda e: failed.append(e) if isinstance(e, ApiFailed) else 0
    )
    assert [event.api for event in failed] == ["api-1"]
    for api in apis:
        api.up = False
    with pytest.raises(DfmlError, match="none of the 2 APIs answered"):
        learn(apis, tmp_path / "other", settings=SMALL)


def useless(name, answer):
    return FunctionApi(answer, ApiSpec(name=name, classes=("a", "b", "c"), image=(3, 16, 16)))


def test_useless_and_hostile_apis_are_left_out(tmp_path):
    rng = np.random.default_rng(0)
    bad = [
        useless("uniform", lambda x: np.full((len(x), 3), 1 / 3)),
        useless("constant", lambda x: np.eye(3)[np.zeros(len(x), int)]),
        useless("random", lambda x: np.eye(3)[rng.integers(3, size=len(x))]),
        useless("noise", lambda x: rng.dirichlet(np.ones(3), len(x))),
    ]
    # Seed 0 tells left from right above all, and a student that learns from mirrored copies cannot.
    good = [colour_api(f"good-{i}", seed=i) for i in range(1, 5)]
    weights = {}

    def watch(event):
        if isinstance(event, ApiWeighed):
            weights[event.api] = event.weight

    settings = ["queries=800", "net.width=16", "distil.steps=160"]
    learn([*good, *bad], tmp_path / "run", settings=settings, on_event=watch)
    assert all(weights[api.spec.name] == 0 for api in bad), weights
    assert all(weights[api.spec.name] > 0 for api in good), weights


def test_good_apis_that_were_asked_little_are_kept(tmp_path):
    """Ten answers of each are kept aside, and the student has hardly learned anything when it judges them."""
    good = [colour_api(f"good-{i}", seed=i) for i in range(1, 9)]
    weights = []

    def watch(event):
        if isinstance(event, ApiWeighed):
            weights.append(event.weight)

    learn(good, tmp_path / "run", settings=["queries=100", "net.width=16", "distil.steps=60"], on_event=watch)
    assert weights == [1.0] * 8


def judged(*bounds):
    """From (least, gain, most) of every API."""
    least, gain, most = torch.tensor(bounds).T
    return Foreseen(gain, least, most)


def test_whoever_is_foreseen_counts_alike():
    found = judged((0.5, 0.6, 0.7), (0.4, 0.5, 0.6), (0.3, 0.4, 0.5), (0.1, 0.15, 0.19), (-0.2, -0.1, 0.01))
    # the median of the four that surely are foreseen: 0.4 (the lower of two)
    assert believed(found, least=0.05, share=0.5).tolist() == [1, 1, 1, 0, 0]
    assert believed(found, least=0.05, share=0.4).tolist() == [1, 1, 1, 1, 0]
    assert believed(judged((-2.0, -1.0, 0.0), (0.0, 0.0, 0.0)), least=0.05, share=0.5).tolist() == [1, 1]


def test_nobody_is_dropped_on_a_suspicion():
    sure, doubtful, useless = (0.3, 0.4, 0.5), (-0.2, 0.1, 0.4), (-0.1, 0.0, 0.1)
    assert believed(judged(sure, sure, doubtful, useless), least=0.02, share=0.4).tolist() == [1, 1, 1, 0]


def test_what_is_sure_narrows_as_the_root_of_the_answers_and_few_show_nothing(rng):
    cosines = 0.3 + 0.2 * torch.randn(4000, 1, generator=rng)
    for count in (40, 4000):
        found = foreseen_directions(cosines[:count], torch.ones(count, 1, dtype=torch.bool), sure=3.0)
        half = 3 * float(cosines[:count].double().std()) / count**0.5
        assert float(found.most - found.gain) == pytest.approx(half, rel=1e-3)
        assert float(found.gain - found.least) == pytest.approx(half, rel=1e-3)
        assert found.least < 0.3 < found.most
    few = foreseen_directions(torch.full((3, 1), 0.3), torch.ones(3, 1, dtype=torch.bool), sure=3.0)
    assert (few.least.item(), few.most.item()) == (-torch.inf, torch.inf), "three that agree may agree by chance"


def test_whoever_has_hardly_answered_is_kept(rng):
    """One answers honestly, one always the same, one never, and one has said three times the same."""
    labels = torch.randint(5, (60,), generator=rng)
    answers = torch.eye(5)[labels].unsqueeze(1).repeat(1, 4, 1)
    answers[:, [1, 3]] = torch.eye(5)[0]
    asked = torch.ones(60, 4, dtype=torch.bool)
    asked[:, 2], asked[3:, 3] = False, False
    mean = torch.stack([torch.full((5,), 0.2), torch.eye(5)[0], torch.zeros(5), torch.eye(5)[0]])
    found = foreseen([(answers, (answers * 5).log_softmax(-1), asked)], mean, sure=3.0)
    assert believed(found, least=0.02, share=0.4).tolist() == [1, 0, 1, 1]


def test_a_right_but_too_sure_student_does_not_count_against_an_api(rng):
    """The student is right in three of four cases and all but certain of everything."""
    labels = torch.randint(10, (400,), generator=rng)
    guess = torch.where(torch.rand(400, generator=rng) < 0.75, labels, torch.randint(10, (400,), generator=rng))
    answers = torch.eye(10)[labels].unsqueeze(1)
    sure = (torch.eye(10)[guess] * 40).log_softmax(-1).unsqueeze(1)
    plain = 1 - torch.nn.functional.kl_div(sure, answers, reduction="none").sum(-1).mean() / np.log(10)
    everything = torch.ones(400, 1, dtype=torch.bool)
    found = foreseen([(answers, sure, everything)], torch.full((1, 10), 0.1), sure=10.0)
    assert plain < -1
    assert found.gain.item() > 0.4
    assert found.least.item() > 0


def test_softened_answers_are_powers_that_sum_to_one():
    soft = softened(torch.tensor([[0.64, 0.36, 0.0], [0.0, 0.0, 0.0]]), 0.5)
    assert torch.allclose(soft, torch.tensor([[0.8 / 1.4, 0.6 / 1.4, 0.0], [0.0, 0.0, 0.0]]))


def test_labels_through_8_bit_images_are_enough(tmp_path):
    """On fresh images the body must tell each teacher's labels better than any of three untrained bodies does."""
    teachers = [colour_api(f"api-{i}", seed=i) for i in range(2)]
    init = learn([LabelOnly(Quantised(api)) for api in teachers], tmp_path / "run", settings=SMALL)
    net, fresh = Net(init.net), prior(600, seed=9, size=16).float() / 255

    def hits(params, labels):
        """Share of the labels that a linear read-out gets right, fitted on one half and judged on the other."""
        with torch.no_grad():
            features = torch.cat([net.features(params, fresh), torch.ones(600, 1)], 1).double()
        wanted = torch.eye(3, dtype=torch.float64)[labels]
        readout = torch.linalg.lstsq(features[:300], wanted[:300], driver="gelsd").solution
        return float(((features[300:] @ readout).argmax(1) == labels[300:]).double().mean())

    for api in teachers:
        labels = api(fresh).argmax(1)
        assert hits(init.params, labels) > max(hits(net.init(stream(seed)), labels) for seed in range(3)) + 0.05


def test_apis_may_differ_in_ways_sizes_and_channels(tmp_path):
    grey = FunctionApi(
        lambda x: np.stack([x.mean((1, 2, 3)), 1 - x.mean((1, 2, 3))], 1),
        ApiSpec(name="grey", classes=("light", "dark"), image=(1, 28, 28)),
    )
    apis = [colour_api("three", 3), colour_api("five", 5, size=32, seed=2), grey]
    init = learn(apis, tmp_path / "run", settings=[*SMALL, "net.size=16"])
    assert (init.net.size, init.net.channels) == (16, 3)


def test_the_student_learns_what_its_teachers_know():
    """On fresh images the body must predict a teacher it was distilled from better than an untrained body does."""
    api = colour_api("teacher", 3)
    net, images = Net(NetSpec(width=8, size=16)), prior(600, seed=0, size=16)
    answers = ask_all([api], images, rows=[torch.arange(600)])
    start = net.init(stream(0))
    config = ChorusDistilConfig(steps=200, batch=64, jitter=0, shift=0)
    student = ChorusStudent(
        net, start, answers, config, vocabulary=Vocabulary.apart(answers.ways.tolist()), rng=stream(1)
    )
    for _ in range(config.steps):
        student.advance()
    fresh = prior(400, seed=9, size=16).float() / 255
    wanted = api(fresh).log().clamp_min(-10)

    def explained(params):
        """R^2 of a linear read-out, fitted on one half and judged on the other."""
        with torch.no_grad():
            features = torch.cat([net.features(params, fresh), torch.ones(400, 1)], 1)
        readout = torch.linalg.lstsq(features[:200].double(), wanted[:200].double(), driver="gelsd").solution
        rest = wanted[200:].double() - features[200:].double() @ readout
        return 1 - (rest.var(0) / wanted[200:].double().var(0)).mean().item()

    assert explained(student.params) > explained(start) + 0.05


def test_an_interrupted_api_keeps_what_it_answered():
    api, first = Flaky(colour_api("flaky", 3)), IMAGES_A_CALL["local"]
    images = prior(first + 200, seed=0, size=16)

    class Limited:
        spec = api.spec

        def __call__(self, x):
            if api.answered >= first:
                api.up = False
            return api(x)

    answers = ask_all([Limited()], images, rows=[torch.arange(first + 200)])
    assert answers.asked.sum() == first
    assert isinstance(answers, AnswerTable)
    assert torch.equal(answers.rows(torch.tensor([3])).probs, answers.probs[[3]])


@pytest.mark.parametrize(("size", "calls"), [(32, [1000, 200]), (224, [106] * 11 + [34])])
def test_a_call_holds_at_most_64_megabytes_of_images(size, calls):
    """224 x 224 x 3 float32 numbers are 602,112 bytes, so 106 images fit; of 32 x 32 a thousand do."""
    sent = []

    class Counting(Flaky):
        def __call__(self, images):
            sent.append(len(images))
            return torch.full((len(images), 3), 1 / 3)

    images = torch.zeros(1200, 3, 8, 8, dtype=torch.uint8)
    table = ask_all([Counting(colour_api("large", 3, size=size))], images, rows=[torch.arange(1200)])
    assert sent == calls
    assert table.asked.all()


def test_the_run_says_how_it_was_made(apis, tmp_path):
    init = learn(apis, tmp_path / "run", settings=SMALL, seed=4)
    assert init.provenance["method"] == "chorus"
    assert init.provenance["queries"] == 600
    assert init.provenance["seed"] == 4
    assert json.loads(json.dumps(init.provenance)) == init.provenance
    assert init.statistics


def test_many_apis_share_the_pictures(tmp_path):
    """Three pictures a query: every API is asked as often as ever, each about pictures of which others know nothing."""
    shown = [set() for _ in range(6)]

    class Watched(Flaky):
        def __call__(self, images):
            shown[int(self.spec.name)].update(image.numpy().tobytes() for image in images)
            return super().__call__(images)

    apis = [Watched(colour_api(str(i), 3, seed=i)) for i in range(6)]
    learn(apis, tmp_path / "run", settings=[*SMALL, "queries=30", "spread=3"])
    assert [api.answered for api in apis] == [30] * 6
    assert [len(pictures) for pictures in shown] == [30] * 6
    assert len(set().union(*shown)) == 90


@given(counts=st.lists(st.integers(0, 20), min_size=1, max_size=9), spread=st.integers(1, 5), seed=st.integers(0, 9))
def test_every_round_is_dealt_out_evenly(counts, spread, seed):
    rows = shared_out(counts, spread, seed=seed)
    assert [len(each) for each in rows] == counts
    for each, count in zip(rows, counts, strict=True):  # one picture of every round
        assert torch.equal(each // spread, torch.arange(count))
    whole = shared_out([max(counts)] * len(counts), spread, seed=seed)
    for each, longer in zip(rows, whole, strict=True):  # a longer run begins alike
        assert torch.equal(each, longer[: len(each)])
    heard = torch.cat(whole).bincount(minlength=spread * max(counts))
    assert not len(heard) or int(heard.max() - heard.min()) <= 1


def test_how_far_queries_are_spread_follows_the_apis_and_the_training():
    spread = partial(spread_for, 1000, learned=512_000)
    assert [spread([5] * apis) for apis in (1, 5, 9, 10, 15, 20, 1000)] == [1, 1, 1, 2, 3, 4, 4]
    assert [spread_for(1000, [5] * 100, learned=n) for n in (40_000, 100_000, 199_999, 10**7)] == [1, 2, 3, 4]
    assert [spread([5] * apis) for apis in (3000, 5000, 10_000)] == [4, 2, 1], "answers stay at 270 MB"
    assert [spread([1000] * apis) for apis in (1, 2, 3, 4, 6, 8)] == [1, 1, 1, 2, 3, 4], "two APIs hear of each"
    assert [spread([*[1000] * 3, *[5] * apis]) for apis in (2, 3, 4)] == [2, 1, 1], "as most APIs are"
    assert spread([1000] * 100_000) == 1


@pytest.mark.parametrize("spread", [-3, 3])
def test_pictures_that_nobody_would_hear_of_are_refused(apis, tmp_path, spread):
    with pytest.raises(ConfigError, match=f"spread={spread} cannot be: 2 APIs can share from 1 to 2 pictures"):
        learn(apis, tmp_path / "run", settings=[*SMALL, f"spread={spread}"])
    assert [api.answered for api in apis] == [0, 0]
