"""The server's own count of what it answered: what a client's ledger is compared with."""

import threading
from collections.abc import Iterable
from typing import Any


class Stats:
    """Images in complete, well-formed responses that were written to a client that was still there."""

    def __init__(self, apis: Iterable[str]) -> None:
        self._answered = dict.fromkeys(apis, 0)
        self._lock = threading.Lock()

    def add(self, api: str, images: int) -> None:
        """One response with `images` answers leaves; a negative number takes back one that did not arrive."""
        with self._lock:
            self._answered[api] += images

    def to_json(self) -> dict[str, Any]:
        """{"answered": n, "apis": {name: {"answered": n}}}"""
        with self._lock:
            apis = {name: {"answered": count} for name, count in self._answered.items()}
        return {"answered": sum(api["answered"] for api in apis.values()), "apis": apis}
