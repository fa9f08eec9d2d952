"""Who may talk to the page: whoever knows the token, at an address of this machine, from the page itself."""

import hmac
from collections.abc import MutableMapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing from elsewhere, nothing inline; and text cannot become HTML, whatever an API is called."""
REPORT_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'none'"
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
    "content-security-policy": PAGE_POLICY,
    "cache-control": "no-store",
}


class Guard:
    """Lets a request through to `app` if its path begins with the token and its headers name this very server.

    A page of somebody else's cannot know the token. Should it learn it, its requests bear its own `Origin`; and a name
    of somebody else's that points to this machine (DNS rebinding) bears another `Host`.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self.app, self.root = app, f"/{token}"
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return  # there are no web sockets here; the server refuses them
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        reason = self._refuse(scope["path"], headers)
        if reason:
            return await _plain(send, 403, reason)
        scope = {**scope, "root_path": self.root}

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.decode("latin-1").lower() for name, _ in message["headers"]}
                extra = [(name.encode(), value.encode()) for name, value in _HEADERS.items() if name not in own]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await self.app(scope, receive, send_with_headers)

    def _refuse(self, path: str, headers: MutableMapping[str, str]) -> str | None:
        if headers.get("host") not in self.hosts:
            return "this server answers to 127.0.0.1 and localhost only"
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.hosts}:
            return "this server answers to its own page only"
        first = "/" + path.split("/", 2)[1] if "/" in path else path
        if not hmac.compare_digest(first.encode("utf-8", "replace"), self.root.encode()):
            return "the token is missing or wrong; open the address that dfml play printed"
        return None


async def _plain(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode() + b"\n"})
