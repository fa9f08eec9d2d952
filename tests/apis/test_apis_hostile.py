"""Response parsers against whatever hypothesis can think of: only `ApiError`s come out."""

import json
import math
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dfml.apis.blackbox import ApiSpec, check_answer
from dfml.apis.pixels import InputConfig
from dfml.apis.remote.discovery import from_tf_metadata, from_v2_metadata
from dfml.apis.remote.host import HttpResponse
from dfml.apis.remote.huggingface import HuggingFace
from dfml.apis.remote.inference_v2 import InferenceV2
from dfml.apis.remote.json_route import JsonRoute
from dfml.apis.remote.patience import judge, wait_asked_for
from dfml.apis.remote.tf_serving import TfServing
from dfml.apis.scores import OutputConfig, probabilities
from dfml.errors import ApiError, ConfigError

SPEC = ApiSpec(name="toy", classes=("ant", "bee", "cat"), image=(3, 4, 4))
WIRES = {"inference_v2": InferenceV2, "tf_serving": TfServing, "huggingface": HuggingFace, "json": JsonRoute}
KEYS = ["outputs", "predictions", "name", "shape", "datatype", "data", "parameters", "label", "score", "error"]
WORDS = [
    "ant",
    "bee",
    "cat",
    "cow",
    "FP32",
    "FP16",
    "INT64",
    "UINT8",
    "BYTES",
    "BOOL",
    "0.5:1",
    "0.5:9",
    "1e999:0",
    "0.2:1:b",
]

numbers = st.one_of(
    st.integers(-3, 4),
    st.sampled_from([0.25, 0.5, 1.0, 50.0, -1e-9, 1e308, 2**63, 2**64, 10**400]),
    st.floats(allow_nan=True, allow_infinity=True),
)
leaves = st.none() | st.booleans() | numbers | st.sampled_from(WORDS) | st.text(max_size=5)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)
scores = st.lists(numbers | st.sampled_from(["0.5:1", "ant"]), max_size=7)
output = st.fixed_dictionaries(
    {"name": st.just("p")},
    optional={
        "datatype": st.sampled_from(WORDS) | leaves,
        "shape": st.lists(st.integers(-1, 4) | leaves, max_size=3),
        "data": scores | st.lists(scores, max_size=3) | trees,
        "parameters": st.dictionaries(st.just("binary_data_size"), st.integers(-1, 40) | leaves) | leaves,
    },
)
plausible = st.one_of(
    st.builds(lambda *o: {"outputs": list(o)}, output, output),
    st.builds(lambda o: {"outputs": [o]}, output),
    st.builds(lambda rows: {"predictions": rows}, st.lists(scores | trees, max_size=3)),
    st.builds(lambda rows: {"outputs": rows}, st.lists(scores, max_size=3) | st.dictionaries(st.text(), trees)),
    st.lists(st.fixed_dictionaries({"label": st.sampled_from(WORDS) | leaves, "score": numbers | leaves}), max_size=4),
)


def right(count, row):
    """Answers of all protocols to `count` images, with `row` for each."""
    tensor = {"name": "p", "datatype": "FP32", "shape": [count, len(row)], "data": row * count}
    labels = [{"label": label, "score": score} for label, score in zip(SPEC.classes, row, strict=False)]
    return [{"outputs": [tensor]}, {"predictions": [row] * count}, {"outputs": {"p": [row] * count}}, labels]


@st.composite
def bodies(draw):
    """Rubbish, JSON of any shape, answers that are nearly right, cut off anywhere, with raw tensors behind them."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.binary(max_size=60)), {}
    if kind == 1:
        return draw(st.sampled_from([b"[" * 100_000, b'{"a":' * 50_000, b"9" * 10_000, b"\xff\xfe[", b'"\\ud800"'])), {}
    told = draw(trees if kind == 2 else plausible)
    if kind > 5:
        told = draw(st.sampled_from(right(draw(st.integers(1, 3)), draw(st.just([0.5, 0.25, 0.25]) | scores))))
    body = json.dumps(told).encode()
    headers = {}
    if kind in (3, 4, 5):
        length = draw(st.sampled_from([len(body), len(body) - 1, len(body) + 9, -1, "x", "", "9" * 30, "²"]))
        tail = draw(st.binary(max_size=24) | st.builds(lambda t: struct.pack("<I", len(t)) + t, st.binary(max_size=9)))
        body, headers = body + tail, {"inference-header-content-length": str(length)}
    if draw(st.integers(0, 9)) == 0:
        body = body[: draw(st.integers(0, len(body)))]
    return body, headers


outputs = st.builds(
    OutputConfig,
    name=st.none() | st.just("p"),
    kind=st.sampled_from(["probs", "label"]),
    scale=st.sampled_from(["1", "100", "logits"]),
    decimals=st.none() | st.integers(0, 3),
    threshold=st.none() | st.just(0.1),
    missing=st.sampled_from(["even", "none"]),
    scores=st.sampled_from([None, "outputs", "predictions", "*.score", "outputs.0.data", "predictions.*"]),
    labels=st.sampled_from([None, None, "*.label", "outputs.0.name", "label"]),
)


def swallow(protocol, answer, config, count):
    body, headers = answer
    wire = WIRES[protocol]("http://h", "m", None, InputConfig(encoding="png", many=count > 1), config)
    try:
        probs = probabilities(SPEC, config, wire.scores(HttpResponse(200, headers, body), count), count)
    except ApiError as error:
        check_sentence(error)
    else:
        check_answer(SPEC, probs, count)
        assert np.isfinite(probs.numpy()).all()


def check_sentence(error):
    """One short line without escapes, which any terminal can print."""
    assert str(error).isprintable()
    assert len(str(error).encode()) < 1000


quick = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
thorough = settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
hostile = given(answer=bodies(), config=outputs, count=st.integers(1, 3))


@pytest.mark.parametrize("protocol", WIRES)
@quick
@hostile
def test_hostile_bodies(protocol, answer, config, count):
    swallow(protocol, answer, config, count)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", WIRES)
@thorough
@hostile
def test_ten_thousand_hostile_bodies(protocol, answer, config, count):
    swallow(protocol, answer, config, count)


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
