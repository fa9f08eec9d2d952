"""What went wrong in an exchange, as one sentence. Only what is known to hold no secret is repeated."""

import http.client
import re
import ssl
from collections.abc import Iterator

from urllib3 import exceptions as e3

from dfml.apis.remote.reading import shown
from dfml.errors import ApiError, Garbled, Refused, Unanswered, Unreachable

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})")
_UNREADABLE = (
    http.client.HTTPException,
    e3.InvalidHeader,
    e3.InvalidChunkLength,
    e3.IncompleteRead,
    e3.DecodeError,
    e3.ProtocolError,
)


class OutOfTime(Unanswered):
    """The server did not answer in time; a longer limit may help."""


def failure(error: BaseException, *, origin: str, proxy: str | None, begun: bool) -> ApiError:
    """What `error` means, where it was not the time that was over; `begun` is whether an answer was coming in."""
    chain = list(_chain(error))
    at_proxy = proxy is not None and any(isinstance(one, e3.ProxyError) for one in chain)
    who = f"the proxy {proxy}" if at_proxy else origin
    for one in chain:
        if isinstance(one, ssl.SSLCertVerificationError):
            return Refused(
                f"{who} shows a certificate that is not trusted (certificate verify failed: "
                f"{shown(one.verify_message, 100)}); if it is the right one, name a file with it, or with the "
                "authority that signed it, in SSL_CERT_FILE"
            )
        if isinstance(one, ssl.SSLError) and one.reason in _NO_TLS:
            return Refused(f"{who} does not speak TLS; try http:// instead of https:// in its address")
        tunnel = _TUNNEL.match(str(one)) if isinstance(one, OSError) else None
        if tunnel:
            return refused_by_proxy(int(tunnel[1]), proxy, origin)
    if any(isinstance(one, e3.ConnectTimeoutError | e3.ProxyError) for one in chain):
        way = f" through the proxy {proxy}" if proxy else ""
        hint = "; see HTTP_PROXY, HTTPS_PROXY and NO_PROXY" if proxy else ""
        return Unreachable(f"{origin} cannot be reached{way} ({_why(chain)}){hint}")
    if any(isinstance(one, http.client.RemoteDisconnected) for one in chain) and not begun:
        return Unanswered(f"{origin} broke the connection off (it ended without an answer)")
    if not begun and any(isinstance(one, OSError) for one in chain):
        return Unanswered(f"{origin} broke the connection off ({_why(chain)})")
    if begun and any(isinstance(one, OSError | e3.IncompleteRead | http.client.IncompleteRead) for one in chain):
        return Garbled("its answer is cut off")
    if any(isinstance(one, e3.DecodeError) for one in chain):
        return Garbled("its answer cannot be decompressed")
    if any(isinstance(one, _UNREADABLE) for one in chain):
        return Garbled(f"its answer is no HTTP{_detail(chain)}")
    return Unreachable(f"{origin} cannot be asked ({type(error).__name__})")


def refused_by_proxy(status: int, proxy: str | None, origin: str) -> ApiError:
    """What the status of a proxy's own answer means."""
    if status == 407:
        return Refused(
            f"the proxy {proxy} wants a user and a password, or others (407); write them into the variable that names "
            "it, such as HTTPS_PROXY=http://user:password@host:port"
        )
    kind = Refused if status in (401, 403) else Unreachable
    return kind(f"the proxy {proxy} does not connect us with {origin}: it answered {status}; see NO_PROXY")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and all that it was made from, each once."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [inner for inner in one.args if isinstance(inner, BaseException)]
        waiting += [one.__cause__, one.__context__]


def _why(chain: list[BaseException]) -> str:
    """What the system says, in its own few words."""
    for one in chain:
        if isinstance(one, OSError) and one.strerror and not isinstance(one, ssl.SSLError):
            return shown(one.strerror, 100)
    for one in chain:
        if isinstance(one, ssl.SSLError):
            return shown(one.reason or "TLS failed", 100)
    if any(isinstance(one, e3.ConnectTimeoutError) and not isinstance(one, e3.NewConnectionError) for one in chain):
        return "no connection in time"
    return next((shown(str(one), 100) for one in chain if isinstance(one, OSError)), type(chain[0]).__name__)


def _detail(chain: list[BaseException]) -> str:
    for one in chain:
        if isinstance(one, http.client.BadStatusLine) and str(one).startswith(("\x15\x03", "\x16\x03")):
            return " but TLS; try https:// instead of http:// in its address"
        if isinstance(one, e3.InvalidHeader):
            return ": it states several lengths"
        if isinstance(one, http.client.LineTooLong) or "headers" in str(one):
            return ": its headers are too long"
    return ""
