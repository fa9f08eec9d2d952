"""The ledger's numbers against what servers and functions saw: answered, unusable and in doubt add up to it."""

import asyncio
import threading
import time

import numpy as np
import pytest
import torch

from dfml.apis.blackbox import ApiSpec
from dfml.apis.degrade import Rounded
from dfml.apis.ledger import Budget, Ledger, Metered
from dfml.apis.local.function import FunctionApi
from dfml.apis.remote.limits import Limits
from dfml.errors import ApiError, BadAnswer, BudgetExceeded, Garbled, Refused, Unanswered, Unreachable
from strangers import load, model, serving, v2

TWO_BY_TWO = "limits.images_per_request = 2"
SPEC = ApiSpec(name="mine", classes=("dark", "bright"), image=(1, 2, 2))
pytestmark = pytest.mark.usefixtures("no_long_pauses")


@pytest.fixture
def images(rng):
    return torch.rand(10, 3, 4, 4, generator=rng)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


def seen(server):
    """The images that a server was sent."""
    return sum(request.json()["inputs"][0]["shape"][0] for request in server.requests if request.method == "POST")


def numbers(ledger):
    return ledger.queries, ledger.unusable, ledger.in_doubt


def four_classes(request):
    (tensor,) = request.json()["inputs"]
    count = tensor["shape"][0]
    data = [0.25] * (4 * count)
    return 200, {}, {"outputs": [{"name": "p", "datatype": "FP32", "shape": [count, 4], "data": data}]}


def test_answers_of_the_wrong_shape_are_counted(tmp_path, images, ledger):
    with serving(four_classes) as server:
        api = Metered(load(tmp_path, server.url, "inference_v2", TWO_BY_TWO), ledger)
        with pytest.raises(BadAnswer):
            api(images)
        assert numbers(ledger) == (0, seen(server), 0)
        assert seen(server) > 0


def test_every_garbled_try_is_counted(tmp_path, images, ledger):
    with serving(lambda request: (200, {}, b"<html>busy</html>")) as server:
        api = Metered(load(tmp_path, server.url, "inference_v2", TWO_BY_TWO, "input.form = 'json'"), ledger)
        with pytest.raises(Garbled):
            api(images)
        assert seen(server) > 2, "it was tried again"
        assert numbers(ledger) == (0, seen(server), 0)


def test_a_garbled_answer_and_then_a_good_one_are_both_counted(tmp_path, images, ledger):
    bad = set()

    def respond(request):
        if request.body in bad:
            return v2(request)
        bad.add(request.body)
        return 200, {}, b"{"

    with serving(respond) as server:
        api = Metered(Rounded(load(tmp_path, server.url, "inference_v2", TWO_BY_TWO, "input.form = 'json'"), 3), ledger)
        np.testing.assert_allclose(api(images), model(images.numpy()), atol=6e-4)
        assert numbers(ledger) == (10, 10, 0)
        assert seen(server) == 20


def test_no_budget_is_passed_by_asking_again(tmp_path, images):
    """A budget of 5 pays for 4 images: when their answers cannot be used, too little is left to ask again."""
    with serving(lambda request: (200, {}, b"{")) as server:
        for folder, own, all_together in (("own", 5, None), ("shared", None, Budget(5))):
            with Ledger(tmp_path / f"{folder}.sqlite", budget=own, shared=all_together) as ledger:
                before = seen(server)
                api = Metered(load(tmp_path, server.url, "inference_v2", TWO_BY_TWO, "input.form = 'json'"), ledger)
                with pytest.raises(BudgetExceeded, match=r"2 more queries would pass .* after: its answer"):
                    api(images[:4])
                assert seen(server) - before == ledger.unusable == 4
                assert ledger.remaining == 1


def test_refusals_and_servers_that_are_down_cost_nothing(tmp_path, images, ledger):
    with serving(lambda request: (400, {}, b"no")) as server:
        api = Metered(load(tmp_path, server.url, "inference_v2", TWO_BY_TWO), ledger)
        with pytest.raises(Refused):
            api(images)
    with serving(v2) as server:
        api = Metered(load(tmp_path, server.url, "inference_v2", "limits.retries = 1"), ledger)
    with pytest.raises(Unreachable):
        api(images)
    assert numbers(ledger) == (0, 0, 0)


def test_a_request_that_is_never_answered_is_in_doubt(tmp_path, images, ledger):
    """It may have been computed and charged for: the server reads the whole request, and then hangs up."""
    silent = threading.Event()
    silent.set()
    with serving(lambda request: None if silent.is_set() else v2(request)) as server:
        lines = ("limits.retries = 1", TWO_BY_TWO, "input.form = 'json'")
        api = Metered(load(tmp_path, server.url, "inference_v2", *lines), ledger)
        with pytest.raises(Unreachable):
            api(images)
        assert numbers(ledger) == (0, 0, seen(server))
        silent.clear()


class InTwoMinds:
    """Of one request for four images it loses the first two answers, garbles the third, and asks for these again."""

    spec = SPEC

    def __call__(self, images):
        return torch.tensor([[0.5, 0.5]]).expand(len(images), -1)

    def answers_in_parts(self, images):
        yield range(len(images)), self(images)

    def answers_on_wire(self, images, wire):
        first = wire.sending(range(4))
        wire.ended(first, Unanswered("the line broke"), [0, 1])
        wire.ended(first, Garbled("noise"), [2])
        yield [3], self(images[:1])
        wire.sending([0, 1, 2])
        yield [0, 1, 2], self(images[:3])


@pytest.mark.parametrize("forgive", [False, True])
def test_the_images_of_one_request_may_end_differently(tmp_path, forgive):
    images = torch.arange(4.0).view(4, 1, 1, 1).expand(4, 1, 2, 2) / 4
    for budget in (6, 7) if not forgive else (4, 5):
        with Ledger(tmp_path / f"{budget}.sqlite", budget=budget, forgive_doubt=forgive) as ledger:
            if budget in (4, 6):
                with pytest.raises(BudgetExceeded):
                    Metered(InTwoMinds(), ledger)(images)
                assert numbers(ledger) == (1, 1, 2)
            else:
                Metered(InTwoMinds(), ledger)(images)
                assert numbers(ledger) == (4, 1, 2)
        with Ledger(tmp_path / f"{budget}.sqlite") as again:
            assert again.in_doubt == 2, "another process reads the same"


def test_what_arrives_after_ctrl_c_is_kept(tmp_path, rng, ledger):
    """Requests are on the wire when somebody presses Ctrl-C: their answers still come, and are not lost."""

    def respond(request):
        time.sleep(0.02)
        return v2(request)

    images = torch.rand(40, 3, 4, 4, generator=rng)
    with serving(respond) as server:
        api = Metered(load(tmp_path, server.url, "inference_v2", TWO_BY_TWO, "limits.concurrency = 4"), ledger)
        api(images[:2])
        keep, hit = ledger._as_kept, []

        def interrupted(spec, scores):
            ledger._as_kept = keep
            hit.append(len(scores))
            raise KeyboardInterrupt

        ledger._as_kept = interrupted
        with pytest.raises(KeyboardInterrupt):
            api(images)
        assert numbers(ledger) == (seen(server) - hit[0], 0, hit[0]), "only what was in our hands is lost"
        assert seen(server) > 2 + hit[0], "others were on the wire"


# Functions.


def brightness(images):
    bright = images.mean((1, 2, 3))
    return np.stack([1 - bright, bright], 1)


def pictures(count):
    return torch.arange(count, dtype=torch.float32).view(-1, 1, 1, 1).expand(-1, 1, 2, 2) / count


def true(answers, count):
    torch.testing.assert_close(answers[:, 1], torch.arange(count) / count)


def test_a_function_is_called_in_batches_and_each_is_kept(ledger):
    """An exception at image 150 of 200: the 149 before are on file, but for those of the same call."""
    calls, broken = [], threading.Event()
    broken.set()

    def predict(images):
        calls.append(len(images))
        if broken.is_set() and sum(calls) > 150:
            raise ConnectionError("the line is down")
        return brightness(images)

    api = Metered(FunctionApi(predict, SPEC, limits=Limits(images_per_request=20, retries=0)), ledger)
    with pytest.raises(ApiError, match="mine: its function failed with ConnectionError: the line is down"):
        api(pictures(200))
    assert calls == [20] * 8
    assert numbers(ledger) == (140, 0, 20)
    broken.clear()
    calls.clear()
    api = Metered(FunctionApi(predict, SPEC, limits=Limits(images_per_request=20)), ledger)
    true(api(pictures(200)), 200)
    assert calls == [20] * 3


def test_a_function_that_fails_for_a_moment_is_called_again(ledger):
    calls = []

    def predict(images):
        calls.append(len(images))
        if len(calls) in (1, 3):
            raise TimeoutError
        return brightness(images)

    api = Metered(FunctionApi(predict, SPEC, limits=Limits(images_per_request=5)), ledger)
    true(api(pictures(10)), 10)
    assert calls == [5] * 4
    assert numbers(ledger) == (10, 0, 10)


def test_a_mistake_in_a_function_is_not_repeated(ledger):
    calls = []

    def predict(images):
        calls.append(len(images))
        return images.nothing

    api = Metered(FunctionApi(predict, SPEC, limits=Limits()), ledger)
    with pytest.raises(ApiError, match="AttributeError"):
        api(pictures(10))
    assert calls == [10]


def test_a_function_may_yield_and_loses_nothing_that_it_yielded(ledger):
    fails = threading.Event()
    fails.set()

    def predict(images):
        for number, image in enumerate(images):
            if fails.is_set() and number == 7:
                raise OSError("gone")
            yield brightness(image[None])[0]

    api = Metered(FunctionApi(predict, SPEC), ledger)
    with pytest.raises(ApiError, match="OSError: gone"):
        api(pictures(10))
    assert numbers(ledger) == (7, 0, 3)
    fails.clear()
    true(api(pictures(10)), 10)
    assert numbers(ledger) == (10, 0, 3)


def test_a_function_that_yields_too_little_is_a_bad_answer(ledger):
    def predict(images):
        yield brightness(images[:4])

    with pytest.raises(BadAnswer, match="yielded answers to 4 of 10 images"):
        Metered(FunctionApi(predict, SPEC), ledger)(pictures(10))
    assert numbers(ledger) == (4, 6, 0)


def test_a_function_may_be_async(ledger):
    loops = set()

    async def predict(images):
        loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return brightness(images)

    async def one_by_one(images):
        for image in images:
            await asyncio.sleep(0)
            yield brightness(image[None])[0]

    api = Metered(FunctionApi(predict, SPEC, limits=Limits(images_per_request=4)), ledger)
    true(api(pictures(10)), 10)
    assert len(loops) == 1, "a client that belongs to a loop can be used in every call"
    true(FunctionApi(one_by_one, SPEC)(pictures(10)), 10)

    async def inside_a_loop():
        return FunctionApi(predict, SPEC)(pictures(3))

    true(asyncio.run(inside_a_loop()), 3)
