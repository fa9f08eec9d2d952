"""The way to a server: directly or through the proxy that the environment prescribes, and whose certificates count."""

import ssl
from functools import cache
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import HTTPConnectionPool, PoolManager, ProxyManager, make_headers

from dfml.apis.remote.deadline import timed
from dfml.errors import ConfigError

CONNECTIONS = 64
"""to one server at once"""
SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")


class Route(NamedTuple):
    """How a server is reached."""

    pool: HTTPConnectionPool
    """its connections"""
    proxy: str | None
    """the proxy's scheme, host and port, without the credentials"""
    forwards: bool
    """whether requests name the whole address, because the proxy has to know it"""


def find_route(origin: str) -> Route:
    """The way to `origin` by what the environment says now."""
    parts = urlsplit(origin)
    proxy = _proxy(parts.scheme, parts.hostname or "", parts.port)
    manager: PoolManager
    if proxy is None:
        manager = PoolManager(1, ssl_context=_tls(), maxsize=CONNECTIONS, block=True)
        name = None
    else:
        name = _shown(proxy)
        manager = _through(proxy, name)
    pool = manager.connection_from_url(origin)
    assert isinstance(pool, HTTPConnectionPool)
    pool.ConnectionCls = timed(pool.ConnectionCls)
    return Route(pool, name, forwards=pool.proxy is not None and parts.scheme == "http")


def _through(proxy: str, name: str) -> PoolManager:
    parts = urlsplit(proxy)
    if parts.scheme in ("http", "https"):
        user = parts.username and f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return ProxyManager(
            name,
            1,
            proxy_headers=make_headers(proxy_basic_auth=user) if user else None,
            proxy_ssl_context=_tls(),
            ssl_context=_tls(),
            maxsize=CONNECTIONS,
            block=True,
        )
    if find_spec("socks") is None:
        raise ConfigError(f"the proxy {name} needs the package PySocks; install it with pip install 'dfml[remote]'")
    from urllib3.contrib.socks import SOCKSProxyManager

    return SOCKSProxyManager(
        name,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password or "") if parts.username else None,
        num_pools=1,
        ssl_context=_tls(),
        maxsize=CONNECTIONS,
        block=True,
    )


def _proxy(scheme: str, host: str, port: int | None) -> str | None:
    """The proxy that the environment prescribes for this server, if any; never for this machine itself."""
    proxies = getproxies()
    address = proxies.get(scheme) or proxies.get("all")
    if not address or _is_near(host) or proxy_bypass(f"{host}:{port}"):
        return None
    if any(_covers(entry.strip(), host) for entry in proxies.get("no", "").split(",")):
        return None
    return address if "://" in address else f"http://{address}"


def _is_near(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower() == "localhost" or host.rstrip(".").lower().endswith(".localhost")


def _covers(entry: str, host: str) -> bool:
    """Whether a network such as 10.0.0.0/8, or an address, in NO_PROXY holds this host."""
    try:
        return ip_address(host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return False


def _shown(proxy: str) -> str:
    """A proxy without its credentials."""
    try:
        parts = urlsplit(proxy)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 1080)
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme not in SCHEMES or not parts.hostname:  # what is wrong may be a secret, so it is not repeated
        raise ConfigError(
            f"HTTP_PROXY, HTTPS_PROXY or ALL_PROXY is no proxy; expected {', '.join(SCHEMES)} and then ://host:port"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


@cache
def _tls() -> ssl.SSLContext:
    """The certificates of the system, of $SSL_CERT_FILE and, where it is installed, of the package certifi."""
    context = ssl.create_default_context()
    if find_spec("certifi") is not None:
        import certifi

        context.load_verify_locations(certifi.where())
    return context
