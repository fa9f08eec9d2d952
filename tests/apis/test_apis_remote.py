"""The policy for remotes, against servers that misbehave: what is tried again, what never, and what is believed."""

import gzip
import ssl
import threading
import time
from email.utils import formatdate

import numpy as np
import pytest
import torch

from dfml.apis.ledger import Ledger, Metered
from dfml.apis.loading import load_apis
from dfml.apis.remote.host import MAX_BYTES, HttpResponse
from dfml.apis.remote.patience import wait_asked_for
from dfml.errors import ConfigError, Garbled, RateLimited, Refused, Unreachable
from strangers import hf, load, manifest, model, serving, v2

QUICK = "limits.timeout = 5"
ONE_BY_ONE = "limits.images_per_request = 1"
pytestmark = pytest.mark.usefixtures("no_long_pauses")


@pytest.fixture
def images(rng):
    return torch.rand(5, 3, 4, 4, generator=rng)


def cut_off(request):
    """A body that ends before its announced length."""
    request.handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")


def reset(request):
    """Nothing at all."""


def once(fault, honest):
    """`fault` for every first request of its kind, then the truth."""
    faulted = set()

    def respond(request):
        key = request.body
        if key in faulted:
            return honest(request)
        faulted.add(key)
        return fault(request)

    return respond


def fixed(status, headers=(), body=b""):
    return lambda request: (status, dict(headers), body)


PASSING = {
    "429": fixed(429),
    "429 and when": fixed(429, {"Retry-After": "0"}),
    "429 and a date": fixed(429, {"Retry-After": formatdate(0, usegmt=True)}),
    "500": fixed(500, (), {"error": "oh"}),
    "503 loading": fixed(503, (), {"error": "loading", "estimated_time": 0.001}),
    "504": fixed(504, (), b"<html>gateway</html>"),
    "reset": reset,
    "cut off": cut_off,
    "empty": fixed(200),
    "no JSON": fixed(200, (), b'{"outputs": [{"na'),
    "another JSON": fixed(200, (), b"{}"),
    "NaN": fixed(200, (), b'{"outputs": [{"name": "p", "datatype": "FP32", "shape": [1, 3], "data": [NaN, 0, 1]}]}'),
    "deep": fixed(200, (), b"[" * 100_000),
    "compressed nonsense": fixed(200, {"Content-Encoding": "gzip"}, b"no gzip"),
}


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize(("protocol", "honest"), [("inference_v2", v2), ("huggingface", hf)])
def test_what_may_pass_is_tried_again(tmp_path, images, fault, protocol, honest):
    with serving(once(PASSING[fault], honest)) as server:
        api = load(tmp_path, server.url, protocol, QUICK, ONE_BY_ONE)
        seen = images.numpy() if protocol == "inference_v2" else np.round(images.numpy() * 255) / 255
        np.testing.assert_allclose(api(images).numpy(), model(seen), atol=1e-6)
        assert len(server.requests) == 2 * 5


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 415, 422, 501])
def test_what_the_server_calls_wrong_is_never_repeated(tmp_path, images, status):
    with serving(fixed(status, (), {"detail": [{"msg": "no tensor\nimage\x1b[31m"}]})) as server:
        api = load(tmp_path, server.url, "inference_v2", "input.form = 'json'", QUICK)
        with pytest.raises(Refused, match=rf"zoo: it answered {status}: no tensor image \[31m$"):
            api(images)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"error": "too bad"}, ": too bad"),
        ({"error": {"message": "inner"}}, ": inner"),
        ({"message": "m"}, ": m"),
        (b"plain text", ": plain text"),
        (b"", "$"),
        (b"{}", "$"),
        ({"error": "x" * 5000}, ": x+…$"),
    ],
)
def test_a_malformed_request_that_comes_back_as_500_is_bounded_and_shown(tmp_path, images, body, shown):
    with serving(fixed(500, (), body)) as server:
        api = load(tmp_path, server.url, "inference_v2", "input.form = 'json'", QUICK, "limits.retries = 3")
        with pytest.raises(Unreachable, match="it answered 500" + shown) as caught:
            api(images)
        assert len(server.requests) == 1 + 3
        assert len(str(caught.value)) < 300


def test_the_breaker_shuts_the_door_and_opens_it_again(tmp_path, images, monkeypatch):
    up = threading.Event()
    with serving(lambda request: v2(request) if up.is_set() else (503, {}, b"")) as server:
        api = load(tmp_path, server.url, "inference_v2", "input.form = 'json'", QUICK, "limits.retries = 2")
        with pytest.raises(Unreachable):
            api(images)
        sent = len(server.requests)
        with pytest.raises(Unreachable, match=r"it answered 503 \(tried again in"):
            api(images)
        assert len(server.requests) == sent, "nothing is sent while the breaker is open"
        api.gate._closed_until = 0.0
        with pytest.raises(Unreachable):
            api(images)
        assert len(server.requests) == sent + 1, "on probation there is one try"
        up.set()
        api.gate._closed_until = 0.0
        np.testing.assert_allclose(api(images).numpy(), model(images.numpy()), atol=1e-6)


def test_a_long_retry_after_is_not_waited_for(tmp_path, images):
    with serving(fixed(429, {"Retry-After": "3600"})) as server:
        api = load(tmp_path, server.url, "inference_v2", QUICK)
        with pytest.raises(RateLimited, match="it answered 429"):
            api(images)
        assert len(server.requests) == 1


def test_waits_are_read_from_numbers_dates_and_estimates():
    now = 1_700_000_000.0

    def asked(headers, body=b""):
        return wait_asked_for(HttpResponse(503, headers, body), now)

    assert asked({"retry-after": "7"}) == 7
    assert asked({"retry-after": formatdate(now + 90, usegmt=True)}) == 90
    assert asked({"retry-after": formatdate(now - 90, usegmt=True)}) == 0
    assert asked({}, b'{"estimated_time": 20.5}') == 20.5
    for nonsense in ("soon", "-5", "", "1e9x", "٣", "Mon, 99 Foo 2020"):
        assert asked({"retry-after": nonsense}) in (None, 0, 3)
    for body in (b'{"estimated_time": "long"}', b'{"estimated_time": NaN}', b"[]", b"x", b'{"estimated_time": -1}'):
        assert asked({}, body) is None


@pytest.mark.parametrize("most", [1, 3])
def test_too_large_a_request_is_split_and_the_size_remembered(tmp_path, rng, most):
    def respond(request):
        if request.json()["inputs"][0]["shape"][0] > most:
            return 413, {}, {"error": "too large"}
        return v2(request)

    images = torch.rand(16, 3, 4, 4, generator=rng)
    with serving(respond) as server:
        api = load(tmp_path, server.url, "inference_v2", QUICK)
        np.testing.assert_allclose(api(images).numpy(), model(images.numpy()), atol=1e-6)
        assert api.images_per_request <= most
        before = len(server.requests)
        api(torch.rand(2 * api.images_per_request, 3, 4, 4, generator=rng))
        assert len(server.requests) == before + 2, "no further request is too large"


def test_one_image_that_is_too_large_is_an_error(tmp_path, images):
    with serving(fixed(413, (), b"no")) as server:
        api = load(tmp_path, server.url, "inference_v2", QUICK)
        with pytest.raises(Refused, match="it answered 413: no"):
            api(images)
        assert len(server.requests) <= 4


def test_redirects_to_other_hosts_are_refused_and_get_no_secret(tmp_path, images, monkeypatch):
    monkeypatch.setenv("TOKEN", "sesame-open")
    with serving(v2) as other:
        with serving(fixed(307, {"Location": other.url + "/elsewhere"})) as server:
            api = load(
                tmp_path, server.url, "inference_v2", "headers.Authorization = '${TOKEN}'", "input.form = 'json'"
            )
            with pytest.raises(Refused, match="redirects to another host"):
                api(images)
        assert not other.requests
        assert server.requests[0].headers["authorization"] == "sesame-open"


def test_redirects_on_the_same_host_are_followed_but_not_in_circles(tmp_path, images):
    def respond(request):
        return v2(request) if request.path.startswith("/there") else (308, {"Location": "/there"}, b"")

    with serving(respond) as server:
        np.testing.assert_allclose(load(tmp_path, server.url, "inference_v2")(images), model(images.numpy()), atol=1e-6)
    with (
        serving(fixed(307, {"Location": "/again"})) as server,
        pytest.raises(Refused, match="in circles"),
    ):
        load(tmp_path, server.url, "inference_v2")(images)


def drip(first, rest):
    """`first` at once, then `rest` byte by byte for as long as anybody listens."""

    def respond(request):
        request.handler.wfile.write(first)
        while True:
            request.handler.wfile.write(rest)
            request.handler.wfile.flush()
            time.sleep(0.02)

    return respond


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"a"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (b"", b""),
    ],
)
def test_however_slowly_an_answer_drips_in_the_request_ends(tmp_path, images, first, rest):
    """That this test ends is what it tests."""
    with serving(drip(first, rest)) as server:
        lines = ("limits.timeout = 1.0", "limits.retries = 1", "input.form = 'json'")
        with pytest.raises(Unreachable, match="did not answer in time"):
            load(tmp_path, server.url, "inference_v2", *lines)(images)
        assert len(server.requests) == 2


def test_answers_of_any_size_are_cut_short(tmp_path, images):
    def endless(request):
        request.handler.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            request.handler.wfile.write(b" " * (1 << 20))

    bomb = gzip.compress(b" " * (MAX_BYTES + 1))
    for respond in (endless, fixed(200, {"Content-Encoding": "gzip"}, bomb)):
        with (
            serving(respond) as server,
            pytest.raises(Garbled, match="larger than 16 MB"),
        ):
            load(tmp_path, server.url, "inference_v2", "input.form = 'json'", "limits.retries = 0")(images)


def test_compressed_answers_are_read_though_not_asked_for(tmp_path, images):
    def respond(request):
        import json

        assert request.headers["accept-encoding"] == "identity"
        status, headers, body = v2(request)
        return status, {**headers, "Content-Encoding": "gzip"}, gzip.compress(json.dumps(body).encode())

    with serving(respond) as server:
        api = load(tmp_path, server.url, "inference_v2", "input.form = 'json'")
        np.testing.assert_allclose(api(images), model(images.numpy()), atol=1e-6)


@pytest.mark.parametrize("refusal", [reset, fixed(400), fixed(500), fixed(200, (), b"?"), fixed(415)])
def test_a_server_without_the_binary_extension_is_asked_in_json_once_that_is_known(tmp_path, rng, refusal):
    def respond(request):
        return refusal(request) if "inference-header-content-length" in request.headers else v2(request)

    with serving(respond) as server:
        path = manifest(tmp_path, server.url, "inference_v2", ONE_BY_ONE)
        text = path.read_text()
        path.write_text(text + "\n" + text.replace("apis.zoo", "apis.other"))
        for api in load_apis(path):
            images = torch.rand(4, 3, 4, 4, generator=rng)
            np.testing.assert_allclose(api(images), model(images.numpy()), atol=1e-6)
        binary = ["inference-header-content-length" in request.headers for request in server.requests]
        assert 1 <= sum(binary) <= 3
        assert not any(binary[3:]), "the second API of the server profits from the first"


def test_no_more_requests_are_under_way_than_allowed_and_the_first_goes_alone(tmp_path, rng):
    under_way, most, lock = [0], [0], threading.Lock()

    def respond(request):
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        time.sleep(0.1)  # long enough for three to meet on a busy machine
        with lock:
            under_way[0] -= 1
        return v2(request)

    images = torch.rand(24, 3, 4, 4, generator=rng)
    with serving(respond) as server:
        api = load(tmp_path, server.url, "inference_v2", ONE_BY_ONE, "limits.concurrency = 3")
        api(images)
    assert most[0] == 3

    with serving(fixed(400)) as server:
        api = load(tmp_path, server.url, "inference_v2", ONE_BY_ONE, "input.form = 'json'")
        with pytest.raises(Refused):
            api(images)
        assert len(server.requests) == 1, "a wrong manifest costs one refusal, not one a thread"


def test_the_rate_is_kept(tmp_path, images):
    with serving(v2) as server:
        api = load(tmp_path, server.url, "inference_v2", ONE_BY_ONE, "limits.rate = 50")
        begun = time.monotonic()
        api(images)
        assert time.monotonic() - begun >= 4 / 50
        assert len(server.requests) == 5


def test_what_was_answered_before_a_failure_is_kept_and_never_asked_for_again(tmp_path, rng):
    broken = threading.Event()
    answered = []

    def respond(request):
        if broken.is_set() and request.number % 3 == 2:
            return 400, {}, b"bad day"
        answered.append(request.json()["inputs"][0]["shape"][0])
        return v2(request)

    images = torch.rand(30, 3, 4, 4, generator=rng)
    broken.set()
    with serving(respond) as server, Ledger(tmp_path / "ledger.sqlite", budget=30) as ledger:
        api = Metered(load(tmp_path, server.url, "inference_v2", "limits.images_per_request = 2"), ledger)
        with pytest.raises(Refused):
            api(images)
        assert 0 < ledger.queries == sum(answered) < 30
        assert ledger.in_doubt == 0
        broken.clear()
        np.testing.assert_allclose(api(images), model(images.numpy()), atol=1e-6)
        assert ledger.queries == sum(answered) == 30


def test_when_nobody_wants_the_rest_no_more_is_sent(tmp_path, rng):
    """Such as when the disk is full: what is under way ends, what only waits for its turn is never sent."""
    with serving(v2) as server:
        api = load(tmp_path, server.url, "inference_v2", ONE_BY_ONE, "limits.concurrency = 2")
        answers = api.answers_in_parts(torch.rand(40, 3, 4, 4, generator=rng))
        next(answers)
        next(answers)
        answers.close()
        assert len(server.requests) <= 1 + 2 + 2 + 2, "the first, those answered since, and those under way"


def test_a_dead_server_is_named_with_its_address(tmp_path, images):
    with serving(v2) as server:
        url = server.url
    api = load(tmp_path, url, "inference_v2", "limits.retries = 1")
    with pytest.raises(Unreachable, match=rf"zoo: {url} cannot be reached \(.*refused\)"):
        api(images)
    with pytest.raises(Unreachable, match="cannot be reached"):
        load(tmp_path, url, "inference_v2").reach()


def test_a_server_that_answers_anything_is_up(tmp_path):
    with serving(fixed(404)) as server:
        load(tmp_path, server.url, "inference_v2").reach()


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path, images):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (tmp_path / "server.pem").write_text(SELF_SIGNED)
    context.load_cert_chain(tmp_path / "server.pem")
    with serving(v2) as server:
        server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
        api = load(tmp_path, server.url.replace("http", "https"), "inference_v2")
        with pytest.raises(Refused, match=r"certificate verify failed: self.signed certificate.* in SSL_CERT_FILE"):
            api(images)
        assert not server.requests


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ftp://host", "is no address"),
        ("host:80", "is no address"),
        ("http://host:x", "is no address"),
        ("http://me:secret@host", "the address of host holds a user or password; put them into headers"),
    ],
)
def test_addresses_that_cannot_be_right(tmp_path, url, complaint):
    with pytest.raises(ConfigError, match=complaint) as caught:
        load(tmp_path, url, "inference_v2")
    assert "secret" not in str(caught.value)


def test_the_environment_completes_the_address(tmp_path, images, monkeypatch):
    with serving(v2) as server:
        monkeypatch.setenv("WHERE", server.url)
        load(tmp_path, "${WHERE}/a/b", "inference_v2")(images)
        assert server.requests[0].path == "/a/b/v2/models/m/infer"


def test_threads_that_wait_wake_up_when_the_api_is_closed(tmp_path, images):
    """That this test ends is what it tests: the server asks for a minute's patience."""
    with serving(fixed(429, {"Retry-After": "60"})) as server:
        api = load(tmp_path, server.url, "inference_v2")
        timer = threading.Timer(0.1, api.close)
        timer.start()
        with pytest.raises(Unreachable, match="stopped"):
            api(images)
        timer.join()


@pytest.mark.parametrize("form", ["", "input.form = 'json'"])
@pytest.mark.parametrize(
    "said", [b"no HTTP at all", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b"HTTP/1.1 x\r\n\r\n"]
)
def test_what_is_no_http_is_asked_for_again_four_times_at_most(tmp_path, images, form, said):
    """It may have been paid for; docs/endpoints.md promises it, whatever forms the protocol has."""

    def respond(request):
        request.handler.wfile.write(said)

    with serving(respond) as server:
        with pytest.raises(Garbled, match=r"zoo: its answer is (no HTTP|cut off)"):
            load(tmp_path, server.url, "inference_v2", form)(images)
        assert len(server.requests) == 1 + 4


def test_forms_add_no_tries(tmp_path, images):
    with serving(fixed(503)) as server:
        with pytest.raises(Unreachable):
            load(tmp_path, server.url, "inference_v2", "limits.retries = 6")(images)
        assert len(server.requests) == 1 + 6


def test_an_api_can_be_asked_again_after_it_was_closed_or_interrupted(tmp_path, images):
    """As an object that is passed to two runs, of which the first ends with Ctrl-C."""
    interrupt = [True]

    def respond(request):
        if interrupt[0]:
            return 429, {"Retry-After": "60"}, b""
        return v2(request)

    with serving(respond) as server:
        api = load(tmp_path, server.url, "inference_v2")
        timer = threading.Timer(0.2, api.close)
        timer.start()
        with pytest.raises(Unreachable, match="stopped"):
            api(images)
        timer.join()
        interrupt[0] = False
        api.gate._paused_until = 0.0
        np.testing.assert_allclose(api(images), model(images.numpy()), atol=1e-6)


def test_a_refusal_to_serve_says_until_when(tmp_path, images):
    with serving(fixed(429, {"Retry-After": "3600"}, {"error": "quota"})) as server:
        api = load(tmp_path, server.url, "inference_v2")
        when = r"it answered 429: quota \(it asks us to come back in 3,600 s, at [-\d]{10} [:\d]{8}\); limits.patience"
        with pytest.raises(RateLimited, match=when):
            api(images)
    with serving(fixed(429)) as server:
        api = load(tmp_path, server.url, "inference_v2", "limits.patience = 0.05")
        with pytest.raises(RateLimited, match=r"429 \(it does not say until when\); limits.patience is 0.05 s"):
            api(images)


def test_a_limit_that_was_too_short_is_named(tmp_path, images):
    with serving(lambda request: time.sleep(1.0)) as server:
        api = load(tmp_path, server.url, "inference_v2", "limits.timeout = 0.3", "limits.retries = 0")
        with pytest.raises(Unreachable, match=r"within 0.3 s; if it needs longer, raise limits.timeout"):
            api(images)


def test_a_users_header_replaces_ours_however_it_is_written(tmp_path, images):
    with serving(v2) as server:
        load(tmp_path, server.url, "inference_v2", "headers.content-type = 'application/x-own'")(images)
        raw = [name.lower() for name in server.requests[0].handler.headers]
        assert raw.count("content-type") == 1
        assert server.requests[0].headers["content-type"] == "application/x-own"


@pytest.mark.parametrize("status", [200, 400])
def test_a_secret_is_blotted_out_before_a_sentence_is_cut(tmp_path, images, monkeypatch, status):
    """Whatever part of an echoed secret a cut would leave over."""
    monkeypatch.setenv("TOKEN", "sesame-open-now")
    for padding in range(170, 200):
        with serving(fixed(status, (), b"x" * padding + b" sesame-open-now")) as server:
            lines = ("headers.X-Key = '${TOKEN}'", "limits.retries = 0", "input.form = 'json'")
            with pytest.raises((Refused, Garbled)) as caught:
                load(tmp_path, server.url, "inference_v2", *lines)(images)
        assert "ses" not in str(caught.value)


SELF_SIGNED = """
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgXNcUXXx2ccfWDxYf
kcTLIcsUJsyFd+AF3vAzrSjsDqqhRANCAATS+hSchK3KMB2eXjLIXP2g4j/o7v9O
lRggA6KcyhmmGbPWG5XcFEIEdr4L3zhcAPLR2+VZI7VKBNZLFqqFycct
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUW4LhruZmkNBs7NB7CNRCfzVUB9kwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNjAxNDUzMVoYDzIxMjYxMDIz
MDE0NTMxWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAATS+hSchK3KMB2eXjLIXP2g4j/o7v9OlRggA6KcyhmmGbPWG5XcFEIE
dr4L3zhcAPLR2+VZI7VKBNZLFqqFyccto28wbTAdBgNVHQ4EFgQUvhnJuc2JyzVf
g+tA1QN824N/NHgwHwYDVR0jBBgwFoAUvhnJuc2JyzVfg+tA1QN824N/NHgwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIhAL8qetH362ZX2R76gLA2iFk5W0E9LQ6s1I2tqAIne+3ZAiBK
xFtZ7idDOaOuu3PrYKQVFNWJUN8mxEDj8VQw1h40tQ==
-----END CERTIFICATE-----
"""
