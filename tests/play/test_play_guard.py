"""Nobody but the page itself is answered: token, Host, Origin, and what the browser is forbidden."""

import socket
from urllib.parse import urlsplit

import httpx
import pytest

from dfml.errors import ConfigError
from dfml.play.server import PlayServer, open_browser


@pytest.fixture
def page(play):
    return play()


def parts(page):
    address = urlsplit(page.address)
    return f"http://{address.netloc}", address.path.strip("/")


@pytest.mark.parametrize("path", ["/", "/api/state", "/page/main.js", "/wrong-token/", "/wrong-token/api/state", "//"])
def test_without_the_token_nothing_is_seen(page, path):
    root, token = parts(page)
    answer = httpx.get(root + path)
    assert answer.status_code == 403
    assert token not in answer.text
    assert "dfml play printed" in answer.text


def test_part_of_the_token_is_not_the_token(page):
    root, token = parts(page)
    assert len(token) >= 22, "at least 128 bits"
    for wrong in (token[:-1], token + "x", token.swapcase()):
        assert httpx.get(f"{root}/{wrong}/api/state").status_code == 403
    assert httpx.get(f"{root}/{token}/api/state").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", "0.0.0.0"])
def test_another_name_for_this_machine_is_refused(page, host):
    answer = page.client.get("api/state", headers={"Host": host})
    assert answer.status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_another_page_is_refused(page, origin):
    for method in ("GET", "POST"):
        answer = page.client.request(method, "api/classes", headers={"Origin": origin})
        assert answer.status_code == 403
    assert len(page.ask("api/state")["classes"]) == 2, "as many as in the beginning"


def test_the_page_itself_is_not(page):
    root, _ = parts(page)
    assert page.client.post("api/classes", json={"name": "a"}, headers={"Origin": root}).status_code == 200
    assert page.client.get("", headers={"Host": root.removeprefix("http://").replace("127.0.0.1", "localhost")})


def test_every_answer_forbids_what_the_page_does_not_need(page):
    for path in ("", "api/state", "page/main.js", "page/page.css", "pictures/99.webp"):
        headers = page.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer", "the token is in the address"
        assert "server" not in headers


def test_only_this_machine_can_reach_it(page):
    port = urlsplit(page.address).port
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), port, socket.AF_INET)}
    for address in others - {"127.0.0.1", "127.0.1.1"}:
        with socket.socket() as knocking:
            knocking.settimeout(2)
            assert knocking.connect_ex((address, port)) != 0


@pytest.mark.parametrize("path", ["page/../../cli/play.py", "page/%2e%2e/app.py", "page//etc/passwd", "../app.py"])
def test_no_other_file_is_served(page, path):
    root, token = parts(page)
    with socket.create_connection((urlsplit(root).hostname, urlsplit(root).port)) as raw:
        host = root.removeprefix("http://")
        raw.sendall(f"GET /{token}/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(4096), b""))
    assert answer.split()[1] in (b"403", b"404", b"405")
    assert b"import" not in answer


def test_no_browser_takes_over_a_terminal(monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: not opened.append(address))  # type: ignore[func-returns-value]
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not open_browser("http://127.0.0.1:1/x/")
    assert opened == []
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_browser("http://127.0.0.1:1/x/")
    assert opened == ["http://127.0.0.1:1/x/"]


def test_a_port_that_is_taken_gets_one_sentence(page, play):
    with pytest.raises(ConfigError, match="cannot listen at port"):
        PlayServer(page.studio, port=urlsplit(page.address).port)
