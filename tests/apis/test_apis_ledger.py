"""The ledger: what is paid is kept, counted once, bounded, and shared between threads."""

import json
import sqlite3
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, rest
from dfml.apis.degrade import Quantised, Rounded, TopK
from dfml.apis.ledger import Budget, Ledger, Metered, ledger_path, spending
from dfml.apis.ledger.fingerprint import fingerprints
from dfml.apis.ledger.journal import Journal
from dfml.apis.local.function import FunctionApi
from dfml.apis.remote.limits import Limits
from dfml.errors import ArtifactError, BadAnswer, BudgetExceeded, ConfigError, DfmlError, Unreachable
from dfml.methods.chorus.asking import ask_all

SPEC = ApiSpec(name="toy", classes=("a", "b", "c", "d"), image=(1, 2, 2))


def pictures(*numbers: int) -> Tensor:
    """One image for every number below a million, different for different numbers."""
    return torch.tensor(numbers, dtype=torch.float32).view(-1, 1, 1, 1).expand(-1, 1, 2, 2) / 2**20


def numbers(images: np.ndarray) -> list[int]:
    return [int(n) for n in np.round(images[:, 0, 0, 0] * 2**20)]


def truth(number: int) -> list[float]:
    return [0.1 + 0.6 * (number % 4 == column) for column in range(4)]


class Counting:
    """Answers `truth`, and remembers every image it was sent."""

    def __init__(self, spec: ApiSpec = SPEC, *, delay: float = 0.0) -> None:
        self.sent: list[list[int]] = []
        self.delay = delay
        self.api = FunctionApi(self.respond, spec)

    def respond(self, images: np.ndarray) -> list[list[float]]:
        asked = numbers(images)
        self.sent.append(asked)
        if self.delay:
            time.sleep(self.delay)
        return [truth(number) for number in asked]

    @property
    def counts(self) -> Counter[int]:
        return Counter(number for call in self.sent for number in call)


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger" / "toy.sqlite") as opened:
        yield opened


def assert_true(answer: Tensor, *asked: int) -> None:
    torch.testing.assert_close(answer, torch.tensor([truth(number) for number in asked]))


def test_an_image_is_paid_for_once(counting: Counting, ledger: Ledger) -> None:
    api = Metered(counting.api, ledger)
    assert_true(api(pictures(1, 2, 3)), 1, 2, 3)
    assert_true(api(pictures(3, 4, 1)), 3, 4, 1)
    assert_true(api(pictures(5, 5, 2, 5)), 5, 5, 2, 5)
    assert counting.counts == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}
    assert (ledger.queries, ledger.hits, ledger.in_doubt, ledger.remaining) == (5, 5, 0, None)


def test_it_looks_like_the_api_it_meters(counting: Counting, ledger: Ledger) -> None:
    api = Metered(counting.api, ledger)
    assert api.spec == SPEC
    assert api(torch.zeros(0, 3, 9, 9)).shape == (0, 4)
    with pytest.raises(ConfigError, match=r"expected images in \[0, 1\]"):
        api(pictures(1) + 2)
    assert counting.sent == []
    big = torch.full((1, 1, 7, 9), 3 / 2**20)
    assert torch.equal(api(big), api(pictures(3)))  # the API sees the same 2x2 pixels
    assert ledger.queries == 1


def test_answers_are_kept_to_the_last_bit(tmp_path: Path, rng: torch.Generator) -> None:
    probs = torch.rand(50, 4, generator=rng).softmax(1).numpy()
    images = torch.rand(50, 1, 2, 2, generator=rng)
    with Ledger(tmp_path / "a.sqlite") as ledger:
        first = Metered(FunctionApi(lambda x: probs, SPEC, limits=Limits(images_per_request=50)), ledger)(images)
    with Ledger(tmp_path / "a.sqlite") as ledger:
        again = Metered(FunctionApi(lambda x: pytest.fail("asked again"), SPEC), ledger)(images.flip(0)).flip(0)
    assert torch.equal(first, again)
    assert np.array_equal(first.numpy(), probs)


def test_calls_of_any_size_are_kept(tmp_path: Path, counting: Counting) -> None:
    everything = list(range(5000))
    with Ledger(tmp_path / "a.sqlite") as ledger:
        Metered(counting.api, ledger)(pictures(*everything))
    with Ledger(tmp_path / "a.sqlite") as ledger:
        assert ledger.queries == 5000
        some = [4999, 0, 1023, 1024, 17]
        assert_true(Metered(counting.api, ledger)(pictures(*some)), *some)
    assert max(counting.counts.values()) == 1


def test_what_an_8_bit_api_cannot_tell_apart_is_one_image(counting: Counting, ledger: Ledger) -> None:
    api = Metered(Quantised(counting.api), ledger)
    grey = torch.full((1, 1, 2, 2), 100 / 255)
    api(torch.cat([grey, grey + 0.4 / 255, grey + 0.6 / 255]))
    assert ledger.queries == 2
    assert numbers(pictures(round(100 / 255 * 2**20)).numpy()) == [counting.sent[0][0]]


def test_degradations_go_inside_or_outside(counting: Counting, tmp_path: Path) -> None:
    with Ledger(tmp_path / "in.sqlite") as inner, Ledger(tmp_path / "out.sqlite") as outer:
        inside = Metered(TopK(Rounded(counting.api, 1), 1), inner)
        outside = TopK(Rounded(Metered(counting.api, outer), 1), 1)
        assert inside.spec == outside.spec
        assert torch.equal(inside(pictures(1, 2)), outside(pictures(1, 2)))


def test_two_that_have_it_open_see_each_others_answers(tmp_path: Path, counting: Counting) -> None:
    with Ledger(tmp_path / "a.sqlite", budget=4) as one, Ledger(tmp_path / "a.sqlite", budget=4) as two:
        first, second = Metered(counting.api, one), Metered(counting.api, two)
        first(pictures(1, 2))
        second(pictures(2, 3))
        assert_true(first(pictures(3, 1)), 3, 1)
        assert counting.counts == {1: 1, 2: 1, 3: 1}
        with pytest.raises(BudgetExceeded, match="3 of 4 spent"):
            second(pictures(4, 5))
        assert one.queries == two.queries == 3


def test_images_asked_for_singly_are_found_again(tmp_path: Path, counting: Counting) -> None:
    with Ledger(tmp_path / "a.sqlite") as ledger:
        api = Metered(counting.api, ledger)
        for number in range(50):
            api(pictures(number))
    with Ledger(tmp_path / "a.sqlite") as ledger:
        backwards = list(range(49, -1, -1))
        assert_true(Metered(counting.api, ledger)(pictures(*backwards)), *backwards)
        assert (ledger.queries, ledger.hits, len(counting.sent)) == (50, 50, 50)


# Budgets.


def test_the_call_that_would_pass_the_budget_is_not_sent(tmp_path: Path, counting: Counting) -> None:
    with Ledger(tmp_path / "a.sqlite", budget=5) as ledger:
        api = Metered(counting.api, ledger)
        api(pictures(1, 2, 3))
        assert ledger.remaining == 2
        message = r"toy: 3 more queries would pass its budget \(3 of 5 spent\), so none was sent; raise it or"
        with pytest.raises(BudgetExceeded, match=message):
            api(pictures(1, 4, 5, 6))
        assert_true(api(pictures(4, 5, 1, 2)), 4, 5, 1, 2)  # known images are free
        assert ledger.remaining == 0
        with pytest.raises(BudgetExceeded):
            api(pictures(7))
        api(pictures(1, 2, 3, 4, 5))
    assert counting.counts == dict.fromkeys(range(1, 6), 1)
    with Ledger(tmp_path / "a.sqlite", budget=6) as ledger:  # what was spent before counts
        api = Metered(counting.api, ledger)
        assert ledger.remaining == 1
        with pytest.raises(BudgetExceeded, match="5 of 6 spent"):
            api(pictures(8, 9))
        api(pictures(8))
    with pytest.raises(ConfigError, match="a number of queries, 0 or more, not -1"):
        Ledger(tmp_path / "a.sqlite", budget=-1)


def test_a_shared_budget_bounds_all_ledgers_together(tmp_path: Path, counting: Counting) -> None:
    def reopened(total: int) -> tuple[Budget, list[Ledger]]:
        budget = Budget(total)
        return budget, [Ledger(tmp_path / f"{name}.sqlite", budget=4, shared=budget) for name in "ab"]

    budget, ledgers = reopened(6)
    first, second = (Metered(counting.api, ledger) for ledger in ledgers)
    first(pictures(1, 2, 3, 4))
    assert budget.remaining == 2
    with pytest.raises(BudgetExceeded, match=r"all APIs together \(2 of 6 left\)"):
        second(pictures(1, 2, 3))
    with pytest.raises(BudgetExceeded, match="its budget"):
        first(pictures(5))
    assert (budget.remaining, ledgers[0].remaining, ledgers[1].remaining) == (2, 0, 2)
    second(pictures(1, 2))
    assert budget.remaining == 0
    for ledger in ledgers:
        ledger.close()
    budget, ledgers = reopened(7)
    assert budget.remaining == 1
    for ledger in ledgers:
        ledger.close()


# Failures.

BAD: dict[str, Callable[[int], object]] = {
    "classes": lambda n: np.full((n, 3), 1 / 3),
    "rows": lambda n: np.full((n + 1, 4), 0.25),
    "nan": lambda n: np.full((n, 4), np.nan),
    "negative": lambda n: np.tile([1.25, -0.25, 0, 0], (n, 1)),
    "sum": lambda n: np.full((n, 4), 0.3),
    "one bad row": lambda n: np.concatenate([np.full((n - 1, 4), 0.25), np.full((1, 4), 0.3)]),
    "text": lambda n: "busy",
}


class Raw:
    """A black box that checks nothing itself."""

    spec = SPEC

    def __init__(self, answer: Tensor) -> None:
        self.answer = answer

    def __call__(self, images: Tensor) -> Tensor:
        return self.answer


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_answer_is_counted_as_unusable_and_not_kept(tmp_path: Path, kind: str) -> None:
    total = Budget(9)
    with Ledger(tmp_path / "a.sqlite", budget=9, shared=total) as ledger:
        with pytest.raises(BadAnswer, match=r"^toy: "):
            Metered(FunctionApi(lambda x: BAD[kind](len(x)), SPEC), ledger)(pictures(1, 2, 3))
        assert (ledger.queries, ledger.unusable, ledger.in_doubt, ledger.remaining) == (0, 3, 0, 6)
        if kind != "text":
            with pytest.raises(BadAnswer, match=r"^toy: "):
                Metered(Raw(torch.as_tensor(BAD[kind](3))), ledger)(pictures(1, 2, 3))
            assert (ledger.unusable, ledger.remaining, total.remaining) == (6, 3, 3)
        assert_true(Metered(Counting().api, ledger)(pictures(1, 2, 3)), 1, 2, 3)
    assert sqlite3.connect(tmp_path / "a.sqlite").execute("SELECT count(*) FROM answers").fetchone() == (1,)
    with Ledger(tmp_path / "a.sqlite", budget=9) as ledger, pytest.raises(BudgetExceeded, match=r"\d unusable"):
        Metered(Counting().api, ledger)(pictures(*range(10, 14)))


def test_a_failed_call_costs_nothing(tmp_path: Path, counting: Counting) -> None:
    budget = Budget(2)

    def offline(_: np.ndarray) -> None:
        raise Unreachable("toy: nobody answers")

    with Ledger(tmp_path / "a.sqlite", budget=2, shared=budget) as ledger:
        with pytest.raises(Unreachable):
            Metered(FunctionApi(offline, SPEC), ledger)(pictures(1, 2))
        assert (ledger.queries, ledger.in_doubt, ledger.remaining, budget.remaining) == (0, 0, 2, 2)
        assert_true(Metered(counting.api, ledger)(pictures(1, 2)), 1, 2)


class Interrupted(BaseException):
    """As if somebody pressed Ctrl-C."""


def test_a_call_whose_end_nobody_saw_is_in_doubt(tmp_path: Path, counting: Counting) -> None:
    class Ends:
        spec = SPEC

        def __call__(self, images: Tensor) -> Tensor:
            raise Interrupted

    with Ledger(tmp_path / "a.sqlite", budget=3) as ledger:
        with pytest.raises(Interrupted):
            Metered(Ends(), ledger)(pictures(1, 2))
        assert (ledger.queries, ledger.in_doubt, ledger.remaining) == (0, 2, 1)
    total = Budget(3)
    with Ledger(tmp_path / "a.sqlite", budget=3, shared=total) as ledger:  # it is still known
        assert (ledger.queries, ledger.in_doubt, ledger.remaining, total.remaining) == (0, 2, 1, 1)
        with pytest.raises(BudgetExceeded, match=r"--forgive-doubt, so that the 2 in doubt do not count"):
            Metered(counting.api, ledger)(pictures(1, 2))
    assert counting.sent == []
    total = Budget(3)
    with Ledger(tmp_path / "a.sqlite", budget=3, shared=total, forgive_doubt=True) as ledger:
        assert (ledger.in_doubt, ledger.remaining, total.remaining) == (2, 3, 3)
        Metered(counting.api, ledger)(pictures(1, 2))
        assert (ledger.queries, ledger.in_doubt, ledger.remaining, total.remaining) == (2, 2, 1, 1)


def test_only_the_batch_that_was_being_computed_is_in_doubt(tmp_path: Path) -> None:
    def third_call_is_the_last(images: np.ndarray) -> list[list[float]]:
        calls.append(len(images))
        if len(calls) == 3:
            raise Interrupted
        return [truth(number) for number in numbers(images)]

    calls: list[int] = []
    with Ledger(tmp_path / "a.sqlite") as ledger:
        api = FunctionApi(third_call_is_the_last, SPEC, limits=Limits(images_per_request=10))
        with pytest.raises(Interrupted):
            Metered(api, ledger)(pictures(*range(100)))
        assert (ledger.queries, ledger.in_doubt) == (20, 10)


class OneByOne:
    """Answers arrive singly, in a scrambled order, and break off at number 13."""

    spec = SPEC

    def __init__(self) -> None:
        self.sent: list[int] = []

    def __call__(self, images: Tensor) -> Tensor:
        raise AssertionError("an API that can stream is asked to")

    def answers_in_parts(self, images: Tensor) -> Iterator[tuple[Sequence[int], Tensor]]:
        asked = numbers(images.numpy())
        for row in sorted(range(len(asked)), key=lambda row: asked[row] * 7 % 10):
            if asked[row] == 13:
                raise Unreachable("toy: gone")
            self.sent.append(asked[row])
            yield [row], torch.tensor([truth(asked[row])])


def test_answers_that_come_in_parts_are_kept_part_by_part(tmp_path: Path) -> None:
    api = OneByOne()
    with Ledger(tmp_path / "a.sqlite", budget=20) as ledger:
        assert_true(Metered(api, ledger)(pictures(1, 2, 3, 4)), 1, 2, 3, 4)
        with pytest.raises(Unreachable):
            Metered(api, ledger)(pictures(10, 11, 12, 13, 14))
        arrived = set(api.sent)
        assert ledger.queries == len(api.sent) == len(arrived)
        assert (ledger.in_doubt, ledger.remaining) == (0, 20 - len(arrived))
        kept = [n for n in (10, 11, 12, 14) if n in arrived]
        assert kept
        assert_true(Metered(api, ledger)(pictures(*kept)), *kept)
        assert len(api.sent) == len(arrived)


def test_a_stream_that_ends_early_is_a_bad_answer(ledger: Ledger) -> None:
    class Short(OneByOne):
        def answers_in_parts(self, images: Tensor) -> Iterator[tuple[Sequence[int], Tensor]]:
            yield [1], torch.tensor([truth(2)])

    with pytest.raises(BadAnswer, match="3 images were sent, 2 of them got no answer"):
        Metered(Short(), ledger)(pictures(1, 2, 3))
    assert ledger.queries == 1


# Threads.


def hammer(api: Metered, threads: int, calls: int, *, below: int) -> list[BaseException]:
    """Every thread asks for random images below a number; return what went wrong."""
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        draw = np.random.default_rng(seed)
        for _ in range(calls):
            asked = draw.integers(0, below, draw.integers(1, 12)).tolist()
            try:
                assert_true(api(pictures(*asked)), *asked)
            except BudgetExceeded as error:
                errors.append(error)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return errors


def test_threads_never_pay_twice(tmp_path: Path) -> None:
    counting = Counting(delay=0.0005)
    with Ledger(tmp_path / "a.sqlite") as ledger:
        api = Metered(counting.api, ledger)
        assert hammer(api, 8, 40, below=300) == []
        assert max(counting.counts.values()) == 1
        assert ledger.queries == len(counting.counts)
        assert ledger.in_doubt == 0
    with Ledger(tmp_path / "a.sqlite") as ledger:
        assert ledger.queries == len(counting.counts)


def test_threads_never_pass_the_budget(tmp_path: Path) -> None:
    """A budget for each of two APIs and one for both: every image sent is counted, and no count passes its bound."""
    counting, total = Counting(delay=0.0005), Budget(150)
    with (
        Ledger(tmp_path / "a.sqlite", budget=100, shared=total) as one,
        Ledger(tmp_path / "b.sqlite", budget=100, shared=total) as two,
    ):
        apis = [Metered(counting.api, ledger) for ledger in (one, two)]
        with ThreadPoolExecutor(2) as pool:
            refused = list(pool.map(lambda api: hammer(api, 4, 60, below=400), apis))
        assert all(refused)
        assert one.queries + two.queries == sum(counting.counts.values()) <= 150
        assert max(one.queries, two.queries) <= 100
        assert total.remaining == 150 - one.queries - two.queries
        for api in apis:  # to the last query
            for number in range(1000, 1200):
                try:
                    api(pictures(number))
                except BudgetExceeded:
                    break
        assert one.queries + two.queries == 150
        assert total.remaining == 0


def test_whoever_waits_asks_himself_when_the_other_fails(tmp_path: Path) -> None:
    asked, release = threading.Event(), threading.Event()
    calls: list[int] = []

    def first_fails(images: np.ndarray) -> list[list[float]]:
        calls.append(len(images))
        if len(calls) == 1:
            asked.set()
            assert release.wait(20)
            raise Unreachable("toy: gone")
        return [truth(number) for number in numbers(images)]

    with Ledger(tmp_path / "a.sqlite", budget=2) as ledger, ThreadPoolExecutor(2) as pool:
        api = Metered(FunctionApi(first_fails, SPEC), ledger)
        loser = pool.submit(api, pictures(1, 2))
        assert asked.wait(20)
        waiter = pool.submit(api, pictures(2, 1))
        time.sleep(0.05)
        assert calls == [2]  # the second waits instead of paying
        release.set()
        assert_true(waiter.result(20), 2, 1)
        with pytest.raises(Unreachable):
            loser.result(20)
        assert ledger.queries == 2


# The file.


def test_a_ledger_belongs_to_one_api_and_its_classes(tmp_path: Path, counting: Counting) -> None:
    with Ledger(tmp_path / "a.sqlite") as ledger:
        Metered(Counting(SPEC.with_changes(classes=("x", "y"))).api, ledger)  # without answers, classes may change
        Metered(counting.api, ledger)(pictures(1))
    for other in (SPEC.with_changes(classes=("a", "b", "c", "e")), SPEC.with_changes(classes=("b", "a", "c", "d"))):
        message = "toy had the classes a, b, c, d and now has .*start a new run"
        with Ledger(tmp_path / "a.sqlite") as ledger, pytest.raises(ConfigError, match=message):
            Metered(Counting(other).api, ledger)
    with Ledger(tmp_path / "a.sqlite") as ledger, pytest.raises(ConfigError, match="the answers of toy, not of eve"):
        Metered(Counting(SPEC.with_changes(name="eve")).api, ledger)


def test_foreign_and_damaged_files_are_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_text("Dear diary, " * 100)
    with pytest.raises(ArtifactError, match="damaged or no ledger of dfml"):
        Ledger(path)
    assert path.read_text().startswith("Dear diary, Dear")
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE answers (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(ArtifactError, match="is no ledger of dfml"):
        Ledger(path)
    assert path.read_bytes() == before
    path.unlink()
    Ledger(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 3")
    db.close()
    with pytest.raises(ArtifactError, match="format 3, and this dfml knows 1 to 2"):
        Ledger(path)
    with pytest.raises(DfmlError, match="the ledger cannot be used"):
        Ledger(tmp_path / "a.sqlite" / "b.sqlite")


def test_a_full_disk_is_a_sentence_and_loses_nothing(tmp_path: Path, counting: Counting) -> None:
    with Ledger(tmp_path / "a.sqlite") as ledger:
        api = Metered(counting.api, ledger)
        api(pictures(1, 2))
        pages = ledger._journal._db.execute("PRAGMA page_count").fetchone()[0]
        ledger._journal._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DfmlError, match=r"disk is full.*see that the disk has space.*no answer in it is lost"):
            api(pictures(*range(10, 1000)))
        sent = len(counting.counts)
        assert 2 < sent < 990, "nothing is sent whose answer cannot be kept"
        assert sent == ledger.queries + ledger.in_doubt  # what was paid for, but could not be kept
        ledger._journal._db.execute("PRAGMA max_page_count = 1000000")
        assert_true(api(pictures(1, 2, 999)), 1, 2, 999)
    assert max(counting.counts.values()) == 1


FORMAT_1 = """
CREATE TABLE about (name TEXT NOT NULL, classes TEXT NOT NULL);
CREATE TABLE answers (first INTEGER PRIMARY KEY, keys BLOB NOT NULL, probs BLOB NOT NULL);
CREATE TABLE in_flight (id INTEGER PRIMARY KEY AUTOINCREMENT, count INTEGER NOT NULL);
PRAGMA application_id = 1684434284;
PRAGMA user_version = 1;
"""


def test_a_ledger_of_format_1_keeps_its_answers(tmp_path: Path, counting: Counting) -> None:
    """As the first version wrote it: two answers, and three images in flight when it was killed."""
    path = ledger_path(tmp_path, "toy")
    path.parent.mkdir()
    keys = fingerprints(SPEC, pictures(1, 2))
    with sqlite3.connect(path) as db:
        db.executescript(FORMAT_1)
        db.execute("INSERT INTO about VALUES ('toy', ?)", (json.dumps(list(SPEC.classes)),))
        probs = np.array([truth(1), truth(2)], "<f4").tobytes()
        db.execute("INSERT INTO answers VALUES (0, ?, ?)", (b"".join(keys), probs))
        db.execute("INSERT INTO in_flight (count) VALUES (3)")
    db.close()
    assert spending(tmp_path)["apis"]["toy"] == {"queries": 2, "unusable": 0, "in_doubt": 3, "saved": 0}
    with Ledger(path) as ledger:
        assert_true(Metered(counting.api, ledger)(pictures(1, 2, 3)), 1, 2, 3)
        assert counting.counts == {3: 1}
        assert (ledger.queries, ledger.in_doubt, ledger.saved) == (3, 3, 2)
    assert spending(tmp_path)["apis"]["toy"] == {"queries": 3, "unusable": 0, "in_doubt": 3, "saved": 2}


def test_wide_answers_are_kept_and_used_in_half_the_bytes(tmp_path: Path, rng: torch.Generator) -> None:
    wide = ApiSpec(name="wide", classes=tuple(map(str, range(1000))), image=(1, 2, 2))
    probs = (3 * torch.randn(40, 1000, generator=rng)).softmax(1).numpy()
    images = torch.rand(40, 1, 2, 2, generator=rng)
    sizes = []
    for exact in (False, True):
        path = tmp_path / f"{exact}.sqlite"
        rows = iter(np.split(probs, [32]))
        with Ledger(path, exact=exact) as ledger:
            first = Metered(FunctionApi(partial(lambda rows, x: next(rows), rows), wide), ledger)(images)
        with Ledger(path, exact=exact) as ledger:
            again = Metered(FunctionApi(lambda x: pytest.fail("asked again"), wide), ledger)(images)
        assert torch.equal(first, again), "what is used is what is kept"
        assert np.array_equal(first.numpy(), probs) == exact
        np.testing.assert_allclose(first.numpy(), probs, rtol=2**-11, atol=2**-24)
        sizes.append(path.stat().st_size)
    assert sizes[0] < 0.6 * sizes[1]


def test_memory_does_not_grow_with_the_answers(tmp_path: Path) -> None:
    rng, way = np.random.default_rng(0), 5
    journal = Journal(tmp_path / "a.sqlite")

    def pay(answers: int) -> None:
        for _ in range(0, answers, 1000):
            keys = [rng.bytes(16) for _ in range(1000)]
            request = journal.announce(1000, limit=None)
            assert request is not None
            journal.keep({request: 1000}, keys, np.full((1000, way), 0.2, np.float32))
            assert len(journal.find(keys[:5], way)) == 5

    pay(2000)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    pay(60_000)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    journal.close()
    assert grown < 200_000  # 3 bytes an answer; a dictionary of keys takes some 150


# What a run has spent.


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_resting_ledger_holds_no_file_and_forgets_nothing(tmp_path: Path, counting: Counting) -> None:
    before = open_files()
    with Ledger(tmp_path / "toy.sqlite", budget=5) as ledger:
        metered = Metered(counting.api, ledger)
        metered(pictures(1, 2))
        rest(metered)
        assert open_files() == before
        assert (ledger.queries, ledger.remaining, ledger.in_doubt) == (2, 3, 0)
        assert open_files() == before
        assert metered(pictures(2, 3)).tolist() == pytest.approx(np.array([truth(2), truth(3)]))
        assert counting.counts == {1: 1, 2: 1, 3: 1}


def test_a_ledger_does_not_rest_while_somebody_asks(tmp_path: Path) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def respond(images: np.ndarray) -> list[list[float]]:
        asked.set()
        assert go_on.wait(10)
        return [truth(number) for number in numbers(images)]

    with Ledger(tmp_path / "toy.sqlite", budget=5) as ledger, ThreadPoolExecutor() as pool:
        answer = pool.submit(Metered(FunctionApi(respond, SPEC), ledger), pictures(1))
        assert asked.wait(10)
        ledger.rest()
        assert (ledger.in_doubt, ledger.remaining) == (0, 4), "its request is under way, not lost"
        go_on.set()
        assert answer.result(10).tolist() == [pytest.approx(truth(1))]
        assert ledger.queries == 1


def test_many_apis_need_few_open_files(tmp_path: Path) -> None:
    most, before = 0, open_files()

    def respond(images: np.ndarray) -> list[list[float]]:
        nonlocal most
        most = max(most, open_files() - before)
        return [truth(number) for number in numbers(images)]

    images = (torch.arange(30, dtype=torch.uint8) % 200).view(-1, 1, 1, 1).expand(-1, 1, 2, 2)
    apis = []
    for number in range(40):
        ledger = Ledger(tmp_path / f"{number}.sqlite")
        apis.append(Metered(FunctionApi(respond, SPEC.with_changes(name=str(number))), ledger))
        ledger.rest()
    answers = ask_all(apis, images, rows=[torch.arange(30)] * 40)
    assert bool(answers.asked.all())
    assert 0 < most < 20, "files of the one that is asked, not of all forty"


def test_spending_adds_up_a_run(tmp_path: Path) -> None:
    for name, asked in (("toy", 3), ("a/b: 50%", 2)):
        with Ledger(ledger_path(tmp_path, name)) as ledger:
            Metered(Counting(SPEC.with_changes(name=name)).api, ledger)(pictures(*range(asked)))
    with Ledger(ledger_path(tmp_path, "toy")) as ledger:
        Metered(Counting().api, ledger)(pictures(1))
    (tmp_path / "ledger" / "begun.sqlite").touch()  # killed before it had a single page
    spent = spending(tmp_path)
    nothing = {"queries": 0, "unusable": 0, "in_doubt": 0, "saved": 0}
    assert spent == {
        **nothing,
        "queries": 5,
        "saved": 1,
        "apis": {
            "a/b: 50%": {**nothing, "queries": 2},
            "begun": nothing,
            "toy": {**nothing, "queries": 3, "saved": 1},
        },
    }
    json.dumps(spent)
    assert {path.suffix for path in (tmp_path / "ledger").iterdir()} == {".sqlite"}  # reading leaves nothing behind


def test_spending_sees_a_run_at_work(tmp_path: Path, counting: Counting) -> None:
    with Ledger(ledger_path(tmp_path, "toy")) as ledger:
        Metered(counting.api, ledger)(pictures(1, 2))
        assert spending(tmp_path)["queries"] == 2


def test_spending_wants_a_run_folder(tmp_path: Path) -> None:
    for foreign in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ArtifactError, match="is no run folder: it has neither"):
            spending(foreign)
    (tmp_path / "ledger").mkdir()
    assert spending(tmp_path) == {"queries": 0, "unusable": 0, "in_doubt": 0, "saved": 0, "apis": {}}
    (tmp_path / "ledger" / "x.sqlite").write_text("no database" * 50)
    with pytest.raises(ArtifactError, match="damaged or no ledger of dfml"):
        spending(tmp_path)
