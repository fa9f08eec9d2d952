"""The way through proxies: which servers are asked through one, what it learns, and what is said when it fails."""

import base64
import contextlib
import socket
import ssl
import threading

import pytest
from rawserver import raw_server, take_all
from tls import AUTHORITY, BOTH

from dfml.apis.remote import routes
from dfml.apis.remote.host import Host, HttpRequest
from dfml.errors import ConfigError, Garbled, Refused, Unreachable

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FAR = "http://far.example:8000"
CREDENTIALS = base64.b64encode(b"me:s3cret/pass").decode().encode()
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    (tmp_path / "authority.pem").write_text(AUTHORITY)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    routes._tls.cache_clear()
    yield monkeypatch
    routes._tls.cache_clear()


def answer(wire, data):
    take_all(wire, data)
    wire.sendall(OK)


def with_tls(folder):
    (folder / "server.pem").write_text(BOTH)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return lambda wire: context.wrap_socket(wire, server_side=True)


def get(url, *, seconds=20.0):
    host = Host(url)
    try:
        return host.send(HttpRequest("GET", url + "/path"), seconds=seconds).body
    finally:
        host.close()


def passing_on(port):
    """A proxy that connects everybody with this port of this machine."""

    def play(wire, data):
        wire.sendall(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n")
        with socket.create_connection(("127.0.0.1", port)) as server:
            back = threading.Thread(target=pump, args=(server, wire))
            back.start()
            pump(wire, server)
            back.join()

    return play


def pump(source, sink):
    try:
        while part := source.recv(1 << 16):
            sink.sendall(part)
    except OSError:
        pass
    for end in (sink, source):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def test_a_proxy_gets_the_whole_address_and_its_credentials(environment):
    with raw_server(answer) as proxy:
        environment.setenv("HTTP_PROXY", f"http://me:s3cret%2Fpass@127.0.0.1:{proxy.port}")
        assert get(FAR) == b"ok"
    assert proxy.requests[0].startswith(b"GET http://far.example:8000/path HTTP/1.1\r\n")
    assert b"basic " + CREDENTIALS in proxy.requests[0].lower().replace(CREDENTIALS.lower(), CREDENTIALS)


def test_credentials_go_to_an_https_proxy_under_tls_alone(environment, tmp_path):
    with raw_server(answer, wrap=with_tls(tmp_path)) as proxy:
        environment.setenv("HTTP_PROXY", f"https://me:s3cret%2Fpass@localhost:{proxy.port}")
        assert get(FAR) == b"ok"
    assert CREDENTIALS in proxy.requests[0], "as it was decrypted"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_tunnel_shows_the_proxy_nothing_but_the_host(environment, tmp_path, scheme):
    with raw_server(answer, wrap=with_tls(tmp_path)) as server:
        wrap = with_tls(tmp_path) if scheme == "https" else None
        with raw_server(passing_on(server.port), wrap=wrap) as proxy:
            environment.setenv("HTTPS_PROXY", f"{scheme}://me:s3cret%2Fpass@localhost:{proxy.port}")
            # No proxy is asked for this machine itself, so it goes by another name of the certificate.
            assert get(f"https://far.example:{server.port}") == b"ok"
    assert proxy.requests[0].startswith(b"CONNECT far.example:%d" % server.port)
    assert CREDENTIALS in proxy.requests[0]
    assert server.requests[0].startswith(b"GET /path HTTP/1.1\r\n")
    assert CREDENTIALS not in server.requests[0]


def test_socks(environment):
    pytest.importorskip("socks")
    asked = []

    def serve(wire):
        assert wire.recv(2)[:1] == b"\x05"
        wire.recv(8)
        wire.sendall(b"\x05\x00")
        length = wire.recv(5)[4]
        asked.append(wire.recv(length))
        wire.recv(2)
        wire.sendall(b"\x05\x00\x00\x01\0\0\0\0\0\0")
        return wire

    with raw_server(answer, wrap=serve) as proxy:
        environment.setenv("ALL_PROXY", f"socks5h://127.0.0.1:{proxy.port}")
        assert get(FAR) == b"ok"
    assert asked == [b"far.example"]
    assert proxy.requests[0].startswith(b"GET /path HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("no_proxy", "url", "through"),
    [
        ("", "http://10.1.2.3:80", True),
        ("10.0.0.0/8", "http://10.1.2.3:80", False),
        ("11.0.0.0/8, 10.1.2.3", "http://10.1.2.3:80", False),
        ("10.0.0.0/8", "http://11.1.2.3:80", True),
        ("fd00::/8", "http://[fd00::1]:80", False),
        ("example.org", "http://models.example.org:80", False),
        (".example.org", "http://models.example.org:80", False),
        ("example.org", "http://example.com:80", True),
        ("example.org:81", "http://example.org:80", True),
        ("example.org:80", "http://example.org:80", False),
        ("*", "http://example.org:80", False),
        ("", "http://localhost:80", False),
        ("", "http://127.9.9.9:80", False),
        ("", "http://[::1]:80", False),
    ],
)
def test_who_is_asked_through_a_proxy(environment, no_proxy, url, through):
    environment.setenv("HTTP_PROXY", "http://me:s3cret@proxy.example:3128")
    environment.setenv("NO_PROXY", no_proxy)
    route = routes.find_route(url)
    assert route.proxy == ("http://proxy.example:3128" if through else None)


def test_a_dead_proxy_is_named(environment):
    with raw_server(answer) as proxy:
        pass
    environment.setenv("HTTP_PROXY", f"http://me:s3cret@127.0.0.1:{proxy.port}")
    with pytest.raises(Unreachable, match=rf"through the proxy http://127.0.0.1:{proxy.port} \(.*refused\)") as caught:
        get(FAR)
    assert "s3cret" not in str(caught.value)
    assert "NO_PROXY" in str(caught.value)


@pytest.mark.parametrize("url", [FAR, "https://far.example:8000"])
def test_407_says_where_credentials_go(environment, url):
    def refuse(wire, data):
        wire.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    with raw_server(refuse) as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            environment.setenv(name, f"http://me:s3cret@127.0.0.1:{proxy.port}")
        with pytest.raises(
            Refused, match=rf"the proxy http://127.0.0.1:{proxy.port} wants a user and a pass"
        ) as caught:
            get(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("rest", [b"a", b"A: b\r\n"])
def test_a_tunnel_that_drips_ends_with_the_deadline(environment, rest):
    """That this test ends is what it tests."""

    def drip(wire, data):
        wire.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            wire.sendall(rest)
            stopped.wait(0.05)

    stopped = threading.Event()
    with raw_server(drip) as proxy:
        environment.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(Unreachable):
            get("https://far.example:8000", seconds=1.0)


def test_a_proxy_that_is_none_is_not_repeated(environment):
    for proxy in ("gopher://me:s3cret@host", "http://me:s3cret@:x"):
        environment.setenv("HTTP_PROXY", proxy)
        with pytest.raises(ConfigError, match="is no proxy; expected http, https, socks4") as caught:
            get(FAR)
        assert "s3cret" not in str(caught.value)


def blurting(said):
    """A server that says this to whatever comes."""

    def blurt(wire):
        wire.recv(1 << 16)
        wire.sendall(said)
        wire.shutdown(socket.SHUT_WR)
        return wire

    return blurt


def test_a_server_that_speaks_no_tls_or_nothing_else_is_told_apart(environment):
    with raw_server(answer, wrap=blurting(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")) as server:
        url = server.url.replace("http", "https")
        with pytest.raises(Refused, match="does not speak TLS; try http://"):
            get(url)
    with raw_server(answer, wrap=blurting(b"\x15\x03\x01\x00\x02\x02\x50")) as server:
        url = server.url
        with pytest.raises(Garbled, match="is no HTTP but TLS; try https://"):
            get(url)


def test_a_certificate_of_an_authority_in_ssl_cert_file_is_trusted(environment, tmp_path):
    with raw_server(answer, wrap=with_tls(tmp_path)) as server:
        assert get(f"https://localhost:{server.port}") == b"ok"
        environment.delenv("SSL_CERT_FILE")
        routes._tls.cache_clear()
        with pytest.raises(Refused, match=r"not trusted .*SSL_CERT_FILE"):
            get(f"https://localhost:{server.port}")
