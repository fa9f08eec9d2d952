"""Faults come as often as asked for, look on the wire as they should, and are never counted."""

import contextlib
import http.client
import socket
import threading
import time
from collections import Counter
from typing import Any

import httpx
import pytest
from colour_server import SPEC, colours, levels
from test_serving_routes import answered, ask_v2, png, v2_tensors

from dfml.apis.local.function import FunctionApi
from dfml.errors import ConfigError
from dfml.serving.faults import KINDS, FaultConfig, Faults
from dfml.serving.hosted import Hosted, RateLimit, ServeConfig
from dfml.serving.http import Server

UPLOAD = png(levels(1)[0])


def upload(client: httpx.Client) -> httpx.Response:
    return client.post("/models/colours", content=UPLOAD)


def failing(serve, kind: str, **config: Any) -> httpx.Client:
    return serve(faults=FaultConfig(rate=1.0, kinds=(kind,), **config))


def test_the_rate_is_kept_by_every_kind_and_the_seed_decides():
    def first(count, seed):
        faults = Faults(FaultConfig(rate=0.2, seed=seed))
        return [faults.next("a")[0] for _ in range(count)]

    drawn = Counter(first(20_000, 0))
    # 20,000 draws: the standard deviation of the rate is 0.0028, that of a kind's share about 0.0012.
    assert abs(1 - drawn[None] / 20_000 - 0.2) < 0.012
    assert all(abs(drawn[kind] / 20_000 - 0.2 / len(KINDS)) < 0.006 for kind in KINDS)
    assert first(50, 3) == first(50, 3) != first(50, 4)


def test_the_fault_of_a_request_does_not_depend_on_other_apis():
    alone, mixed = Faults(FaultConfig(rate=0.5)), Faults(FaultConfig(rate=0.5))
    expected = [alone.next("a")[0] for _ in range(30)]
    found = []
    for _ in range(30):
        found.append(mixed.next("a")[0])
        mixed.next("b")
    assert found == expected


@pytest.mark.parametrize("kind", ["429", "500", "503"])
def test_faults_that_are_responses(serve, kind):
    client = failing(serve, kind)
    responses = [upload(client) for _ in range(20)]
    assert {response.status_code for response in responses} == {int(kind)}
    assert all(response.json()["error"] for response in responses)
    assert {"Retry-After" in response.headers for response in responses} == (
        {True, False} if kind == "429" else {False}
    )
    assert all(("estimated_time" in response.json()) == (kind == "503") for response in responses)
    assert answered(client)["answered"] == 0


def test_a_reset_is_a_reset(serve):
    client = failing(serve, "reset")
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=20) as bare:
        bare.sendall(b"POST /models/colours HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
        with pytest.raises(ConnectionResetError):
            bare.recv(1)
    assert answered(client)["answered"] == 0


def test_a_timeout_says_nothing(serve):
    client = failing(serve, "timeout", hang_s=20)
    with pytest.raises(httpx.ReadTimeout):
        client.post("/models/colours", content=UPLOAD, timeout=0.1)
    patient = failing(serve, "timeout", hang_s=0.05)
    with pytest.raises(httpx.RemoteProtocolError):
        upload(patient)
    assert answered(client)["answered"] == answered(patient)["answered"] == 0


def test_a_truncated_body_ends_before_its_length(serve):
    client = failing(serve, "truncated")
    bare = http.client.HTTPConnection(client.base_url.host, client.base_url.port, timeout=20)
    bare.request("POST", "/models/colours", UPLOAD)
    response = bare.getresponse()
    with pytest.raises(http.client.IncompleteRead):
        response.read()
    bare.close()
    assert answered(client)["answered"] == 0


def test_malformed_bodies_are_complete_and_useless(serve):
    client = failing(serve, "malformed")
    bodies = set()
    for _ in range(40):
        response = upload(client)
        assert response.status_code == 200
        bodies.add(response.content)
        with contextlib.suppress(ValueError):
            assert not isinstance(response.json(), list), "a good answer to an upload is a list"
    assert len(bodies) == 4
    assert answered(client)["answered"] == 0


def test_only_predictions_fail_and_only_where_told(serve):
    apis = [FunctionApi(colours, SPEC.with_changes(name=name)) for name in ("good", "bad")]
    client = serve(apis, faults=FaultConfig(rate=1.0, kinds=("500",), apis=("bad",)))
    assert client.get("/v2/models/bad").status_code == client.get("/v2").status_code == 200
    assert client.post("/models/bad", content=UPLOAD).status_code == 500
    assert client.post("/models/good", content=UPLOAD).status_code == 200
    assert answered(client) == {"answered": 1, "apis": {"good": {"answered": 1}, "bad": {"answered": 0}}}


def test_an_answer_that_nobody_waits_for_is_not_counted(serve):
    started, gone = threading.Event(), threading.Event()

    def slow(images):
        started.set()
        assert gone.wait(20)
        return colours(images)

    before = threading.active_count()
    client = serve([FunctionApi(slow, SPEC)])
    address = (client.base_url.host, client.base_url.port)
    with socket.create_connection(address, timeout=20) as bare:
        head = f"POST /models/colours HTTP/1.1\r\nHost: x\r\nContent-Length: {len(UPLOAD)}\r\n\r\n"
        bare.sendall(head.encode() + UPLOAD)
        assert started.wait(20)
    gone.set()
    while threading.active_count() > before + 1:  # the server itself stays
        time.sleep(0.01)
    assert answered(client)["answered"] == 0


def test_the_rate_limit_is_a_bucket_of_one_second():
    now = 0.0
    limit = RateLimit(4, clock=lambda: now)
    assert [limit.admits() for _ in range(5)] == [True] * 4 + [False]
    now = 0.5
    assert [limit.admits() for _ in range(3)] == [True, True, False]
    now = 100.0
    assert [limit.admits() for _ in range(5)] == [True] * 4 + [False]


def test_over_the_limit_comes_429_with_a_time(serve):
    client = serve(rate_limit=0.001)
    assert upload(client).status_code == 200
    response = upload(client)
    assert (response.status_code, response.headers["Retry-After"]) == (429, "1")
    assert answered(client)["answered"] == 1


def test_a_request_without_length_or_too_long_is_refused(serve):
    client = serve()
    chunks = client.post("/models/colours", content=iter([UPLOAD]))
    assert chunks.status_code == 411
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=20) as bare:
        bare.sendall(b"POST /models/colours HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n\r\n")
        assert b" 413 " in bare.recv(4096)


def test_latency_delays_and_changes_nothing(serve):
    client = serve(latency_s=0.05)
    tensor, raw = v2_tensors(levels(1))["UINT8 in binary"]
    start = time.perf_counter()
    assert ask_v2(client, tensor, raw).status_code == 200
    assert time.perf_counter() - start >= 0.05


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FaultConfig(rate=1.5), "from 0 to 1"),
        (lambda: FaultConfig(kinds=("50",)), "unknown fault '50'"),
        (lambda: ServeConfig(rate_limit=0), "above 0"),
        (lambda: ServeConfig(latency_s=-1), "0 or more"),
        (lambda: ServeConfig(bits=0), "1 to 16"),
        (lambda: Hosted([FunctionApi(colours, SPEC)], ServeConfig(faults=FaultConfig(apis=("x",)))), "no such API"),
        (lambda: Server(Hosted([FunctionApi(colours, SPEC)], ServeConfig()), port=70_000), "cannot listen"),
        (lambda: Server(Hosted([FunctionApi(colours, SPEC)], ServeConfig()), host="203.0.113.1"), "cannot listen"),
    ],
)
def test_bad_settings_are_one_sentence(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
