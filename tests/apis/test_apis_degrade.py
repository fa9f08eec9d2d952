"""What endpoints do to a query, for all answers that hypothesis can think of and in any order."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dfml.apis.blackbox import AnswersInParts, ApiSpec, BlackBox, check_answer
from dfml.apis.degrade import LabelOnly, Quantised, Rounded, TopK
from dfml.apis.local.function import FunctionApi
from dfml.apis.wire import AnswerPart, Unwatched, Wire
from dfml.errors import ConfigError

Wrap = Callable[[BlackBox], BlackBox]
ALL_WRAPPERS: dict[str, Wrap] = {
    "quantised": Quantised,
    "coarse": lambda api: Quantised(api, levels=16),
    "rounded": lambda api: Rounded(api, 3),
    "rounded a lot": lambda api: Rounded(api, 1),
    "top 2": lambda api: TopK(api, 2),
    "top 1": lambda api: TopK(api, 1),
    "top 99": lambda api: TopK(api, 99),
    "label": LabelOnly,
}


def fixed(probs: np.ndarray) -> FunctionApi:
    """An API that answers `probs` (n, k), whatever it is asked."""
    spec = ApiSpec(name="fixed", classes=tuple(map(str, range(probs.shape[1]))), image=(1, 2, 2))
    return FunctionApi(lambda _: probs, spec)


def ask(api: BlackBox, count: int) -> np.ndarray:
    return api(torch.full((count, 1, 2, 2), 0.5)).numpy().astype(np.float64)


@st.composite
def probabilities(draw: st.DrawFn) -> np.ndarray:
    """Some vectors of 2 to 12 classes: flat, peaked, one-hot, with ties and with zeros."""
    way = draw(st.integers(2, 12))
    row = st.lists(
        st.sampled_from([0.0, 1e-4, 0.1, 0.5, 1.0, 3.0, 100.0]) | st.floats(0, 1), min_size=way, max_size=way
    )
    rows = draw(st.lists(row.filter(lambda r: sum(r) > 1e-3), min_size=1, max_size=4))
    raised = np.array(rows, np.float64)
    return raised / raised.sum(1, keepdims=True)


@given(probabilities(), st.lists(st.sampled_from(sorted(ALL_WRAPPERS)), min_size=1, max_size=4))
def test_wrappers_compose_in_any_order(probs: np.ndarray, names: list[str]) -> None:
    api: BlackBox = fixed(probs)
    for name in names:
        api = ALL_WRAPPERS[name](api)
        assert isinstance(api, BlackBox)
    answer = torch.from_numpy(ask(api, len(probs)))
    check_answer(api.spec, answer, len(probs))  # the spec is true, tolerance included
    if "label" in names:
        assert api.spec.output == "label"
        assert ((answer == 0) | (answer == 1)).all()
    decimals = [{"rounded": 3, "rounded a lot": 1}[name] for name in names if name.startswith("rounded")]
    assert api.spec.decimals == (min(decimals) if decimals else None)
    levels = [{"quantised": 256, "coarse": 16}[name] for name in names if name in ("quantised", "coarse")]
    assert api.spec.levels == (levels[-1] if levels else None)


@given(probabilities(), st.integers(1, 12))
def test_top_k_keeps_the_largest_and_spreads_the_rest_evenly(probs: np.ndarray, k: int) -> None:
    api = TopK(fixed(probs), k)
    answer = ask(api, len(probs))
    way = probs.shape[1]
    assert (api.spec.output, api.spec.top_k) == (("top-k", k) if k < way else ("probs", None))
    for exact, got in zip(probs, answer, strict=True):
        largest = np.sort(exact)[::-1][:k]
        others = max(way - k, 0)
        expected = np.concatenate([largest, np.full(others, (1 - largest.sum()) / max(others, 1))])
        np.testing.assert_allclose(np.sort(got), np.sort(expected), atol=1e-6)
        scores = exact.astype(np.float32)
        kept = scores > np.sort(scores)[::-1][k] if others else scores >= 0  # of two that tie, either may be the k-th
        np.testing.assert_allclose(got[kept], exact[kept], atol=1e-6)


@given(probabilities(), st.integers(1, 6), st.integers(1, 4))
def test_of_top_k_scores_only_those_that_are_sent_are_rounded(probs: np.ndarray, decimals: int, k: int) -> None:
    """Rounding inside or outside, the k scores are whole units of the last decimal and the rest is what is missing."""
    for api in (Rounded(TopK(fixed(probs), k), decimals), TopK(Rounded(fixed(probs), decimals), k)):
        for exact, got in zip(probs, ask(api, len(probs)), strict=True):
            sent = np.round(np.sort(exact)[::-1][:k].astype(np.float32), decimals)
            if k >= len(exact):
                np.testing.assert_allclose(np.sort(got)[::-1], sent, atol=1.1 * 10.0**-decimals)
                continue
            rest = max(0.0, 1 - got_top(got, k).sum()) / (len(exact) - k)
            np.testing.assert_allclose(got_top(got, k), sent, atol=1.1 * 10.0**-decimals)
            np.testing.assert_allclose(np.sort(got)[: len(exact) - k], rest, atol=2e-6 + 1.1 * 10.0**-decimals)


def got_top(answer: np.ndarray, k: int) -> np.ndarray:
    return np.sort(answer)[::-1][:k]


@given(probabilities(), st.integers(0, 6))
def test_rounding_moves_a_score_by_half_a_unit_at_most(probs: np.ndarray, decimals: int) -> None:
    answer = ask(Rounded(fixed(probs), decimals), len(probs))
    unit = 10.0**-decimals
    assert np.abs(answer - probs).max() <= 0.5 * unit + 1e-6
    np.testing.assert_allclose(answer / unit, np.round(answer / unit), atol=1e-6 / unit)


@given(probabilities())
def test_a_label_is_the_first_of_the_largest_scores(probs: np.ndarray) -> None:
    answer = ask(LabelOnly(fixed(probs)), len(probs))
    winners = probs.astype(np.float32).argmax(1)
    np.testing.assert_array_equal(answer, np.eye(probs.shape[1])[winners])


@given(st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4), st.sampled_from([2, 16, 256, 1000]))
def test_a_quantised_api_sees_only_the_grid(pixels: list[float], levels: int) -> None:
    seen: list[np.ndarray] = []

    def watch(images: np.ndarray) -> np.ndarray:
        seen.append(images)
        return np.full((1, 2), 0.5)

    spec = ApiSpec(name="watched", classes=("a", "b"), image=(1, 2, 2))
    api = Quantised(FunctionApi(watch, spec), levels)
    assert api.spec == spec.with_changes(levels=levels)
    api(torch.tensor(pixels).view(1, 1, 2, 2))
    got = seen[0].astype(np.float64).ravel()
    np.testing.assert_allclose(got * (levels - 1), np.round(got * (levels - 1)), atol=1e-4)
    assert np.abs(got - pixels).max() <= 0.5 / (levels - 1) + 1e-6


def test_an_image_is_quantised_at_the_size_that_is_sent() -> None:
    """Averaging comes first: a black and a white half make a grey that two levels cannot hold."""
    seen: list[np.ndarray] = []

    def watch(images: np.ndarray) -> np.ndarray:
        seen.append(images)
        return np.full((1, 2), 0.5)

    spec = ApiSpec(name="watched", classes=("a", "b"), image=(1, 1, 1))
    image: Tensor = torch.tensor([[0.0, 1.0], [0.0, 0.9]]).view(1, 1, 2, 2)
    Quantised(FunctionApi(watch, spec), 2)(image)
    assert seen[0].item() in (0.0, 1.0)


def test_settings_without_sense_are_refused() -> None:
    api = fixed(np.full((1, 4), 0.25))
    with pytest.raises(ConfigError, match="at least 2 levels, got 1"):
        Quantised(api, 1)
    with pytest.raises(ConfigError, match="decimals must be 0 or more, got -1"):
        Rounded(api, -1)
    with pytest.raises(ConfigError, match="got k = 0"):
        TopK(api, 0)


@pytest.mark.parametrize("name", sorted(ALL_WRAPPERS))
def test_answers_that_come_in_parts_still_do_behind_a_wrapper(name: str) -> None:
    """Each part is what the wrapper would make of the same rows at once, and the ledger gets it as it comes."""
    probs = np.random.default_rng(0).dirichlet(np.ones(4), 5)

    class InParts:
        spec = fixed(probs).spec

        def __call__(self, images: Tensor) -> Tensor:
            return torch.from_numpy(probs).float()

        def answers_in_parts(self, images: Tensor) -> Iterator[tuple[list[int], Tensor]]:
            for rows in ([3, 1], [0], [2, 4]):
                yield rows, torch.from_numpy(probs[rows]).float()

    api = ALL_WRAPPERS[name](InParts())
    assert isinstance(api, AnswersInParts)
    images = torch.full((5, 1, 2, 2), 0.5)
    whole, parts = api(images), list(api.answers_in_parts(images))
    assert [rows for rows, _ in parts] == [[3, 1], [0], [2, 4]]
    for rows, part in parts:
        assert torch.equal(part, whole[rows])


def test_answers_that_come_late_are_as_coarse_as_the_others() -> None:
    """What arrives after nobody waits any more goes on file, where it must not say more than the endpoint does."""
    probs = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    rescued: list[Tensor] = []

    class Slow(FunctionApi):
        def answers_on_wire(self, images: Tensor, wire: Wire) -> Iterator[AnswerPart]:
            try:
                yield [0], probs[:1]
            finally:
                wire.rescue([1], probs[1:])

    class Recording(Unwatched):
        def rescue(self, rows: Sequence[int], scores: Tensor) -> None:
            rescued.append(scores)

    asked = LabelOnly(Slow(lambda _: probs, fixed(probs.numpy()).spec)).answers_on_wire(
        torch.zeros(2, 1, 2, 2), Recording()
    )
    assert next(asked)[1].tolist() == [[1, 0, 0]]
    asked.close()  # type: ignore[attr-defined]
    assert [scores.tolist() for scores in rescued] == [[[0, 0, 1]]]
