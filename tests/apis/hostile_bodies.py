"""Whatever hypothesis can think of as a server's response, for the parsers; not a test itself, but what one runs.

`python hostile_bodies.py BODIES` gives so many to each parser, raises if anything but an answer or an `ApiError` comes
out, and prints how many were which.
"""

import json
import struct
import sys
from collections import Counter

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dfml.apis.blackbox import ApiSpec, check_answer
from dfml.apis.pixels import InputConfig
from dfml.apis.remote.host import HttpResponse
from dfml.apis.remote.huggingface import HuggingFace
from dfml.apis.remote.inference_v2 import InferenceV2
from dfml.apis.remote.json_route import JsonRoute
from dfml.apis.remote.tf_serving import TfServing
from dfml.apis.scores import OutputConfig, probabilities
from dfml.errors import ApiError

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
    """Whether an answer could be read from it, which is then probabilities; else the refusal is a sentence."""
    body, headers = answer
    wire = WIRES[protocol]("http://h", "m", None, InputConfig(encoding="png", many=count > 1), config)
    try:
        probs = probabilities(SPEC, config, wire.scores(HttpResponse(200, headers, body), count), count)
    except ApiError as error:
        check_sentence(error)
        return False
    check_answer(SPEC, probs, count)
    assert np.isfinite(probs.numpy()).all()
    return True


def check_sentence(error):
    """One short line without escapes, which any terminal can print."""
    assert str(error).isprintable()
    assert len(str(error).encode()) < 1000


hostile = given(answer=bodies(), config=outputs, count=st.integers(1, 3))


def swallow_many(protocol, many):
    """How many of so many bodies one parser could read, and how many it refused."""
    told = Counter()

    @settings(max_examples=many, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @hostile
    def each(answer, config, count):
        told["read" if swallow(protocol, answer, config, count) else "refused with a sentence"] += 1

    each()
    return {"bodies": told.total(), **told}


if __name__ == "__main__":
    print(json.dumps({protocol: swallow_many(protocol, int(sys.argv[1])) for protocol in WIRES}, indent=1))
