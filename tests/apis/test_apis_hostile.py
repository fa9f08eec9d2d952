"""Response parsers against whatever hypothesis can think of: only `ApiError`s come out."""

import math

import pytest
from hostile_bodies import WIRES, bodies, check_sentence, hostile, leaves, swallow, swallow_many, trees
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dfml.apis.pixels import InputConfig
from dfml.apis.remote.discovery import from_tf_metadata, from_v2_metadata
from dfml.apis.remote.host import HttpResponse
from dfml.apis.remote.patience import judge, wait_asked_for
from dfml.errors import ApiError, ConfigError

quick = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("protocol", WIRES)
@quick
@hostile
def test_hostile_bodies(protocol, answer, config, count):
    swallow(protocol, answer, config, count)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", WIRES)
def test_ten_thousand_hostile_bodies(protocol):
    assert swallow_many(protocol, 10_000)["bodies"] >= 10_000


@quick
@given(
    status=st.integers(100, 999),
    body=bodies(),
    after=st.text(max_size=12) | st.sampled_from(["1e400", "9" * 500, "Sun, 06 Nov 1994 08:49:37 GMT", "inf", "nan"]),
)
def test_hostile_complaints(status, body, after):
    """Statuses, Retry-After headers and error bodies: the judgement is an `ApiError` or none, the wait a number."""
    reply = HttpResponse(status, {"retry-after": after}, body[0])
    try:
        judge(reply)
    except ApiError as error:
        check_sentence(error)
    wait = wait_asked_for(reply, 0.0)
    assert wait is None or 0 <= wait < math.inf


TENSORS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"name": leaves, "datatype": leaves, "shape": st.lists(leaves, max_size=5) | leaves}
    )
    | leaves,
    max_size=3,
)


@quick
@given(
    told=st.fixed_dictionaries(
        {},
        optional={
            "inputs": TENSORS | leaves,
            "outputs": TENSORS | leaves,
            "parameters": st.fixed_dictionaries(
                {}, optional=dict.fromkeys(("classes", "encodings", "top_k", "decimals", "output"), trees)
            ),
            "metadata": st.recursive(trees, lambda t: st.dictionaries(st.just("signature_def"), t), max_leaves=3),
        },
    )
    | trees
)
def test_hostile_metadata(told):
    """Whatever a server says of itself, an entry comes out that says which of it the user has to check."""
    for read in (from_v2_metadata, from_tf_metadata):
        try:
            entry, left_open = read("http://h", "m", told)
        except ConfigError as error:
            check_sentence(error)
        else:
            assert len(entry.classes) >= 2
            assert all(len(note) < 300 for note in left_open)


def test_the_fuzzer_also_finds_right_answers():
    """Otherwise it would test the first line of each parser alone."""
    right = []

    @settings(max_examples=400, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @hostile
    def count_right(answer, config, count):
        for protocol, wire in WIRES.items():
            try:
                told = wire("http://h", "m", None, InputConfig(encoding="png"), config)
                told.scores(HttpResponse(200, answer[1], answer[0]), count)
            except ApiError:
                continue
            right.append(protocol)

    count_right()
    assert set(right) == set(WIRES)
