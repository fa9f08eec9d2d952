"""A server in this process whose APIs compute in NumPy, so that every answer can be worked out by hand."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from dfml.apis.blackbox import ApiSpec, BlackBox
from dfml.apis.local.function import FunctionApi
from dfml.serving.hosted import Hosted, ServeConfig
from dfml.serving.http import Server

CLASSES = ("red", "green", "blue", "dark", "bright", "odd", "even")
SPEC = ApiSpec(name="colours", classes=CLASSES, image=(3, 4, 5))


def colours(images: np.ndarray) -> np.ndarray:
    """Seven scores an image from its pixels, all different, summing to 1."""
    flat = images.reshape(len(images), -1).astype(np.float64)
    raw = np.stack([flat[:, k::7].sum(1) + 0.1 * k + 0.05 for k in range(7)], 1)
    return raw / raw.sum(1, keepdims=True)


def levels(count: int, seed: int = 0) -> np.ndarray:
    """Random 8-bit images (n, 3, 4, 5)."""
    return np.random.default_rng(seed).integers(0, 256, (count, 3, 4, 5), dtype=np.uint8)


def expected(pixels: np.ndarray) -> np.ndarray:
    """What the API says of 8-bit images, in float32 as it is stored."""
    return colours(pixels.astype(np.float32) / np.float32(255)).astype(np.float32)


Serve = Callable[..., httpx.Client]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve(**config)` starts a server and gives a client of it."""
    servers: list[Server] = []
    clients: list[httpx.Client] = []

    def start(apis: list[BlackBox] | None = None, **config: Any) -> httpx.Client:
        zoo = Hosted(apis or [FunctionApi(colours, SPEC)], ServeConfig(**config))
        servers.append(Server(zoo))
        threading.Thread(target=servers[-1].serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        clients.append(httpx.Client(base_url=servers[-1].url, timeout=20))
        return clients[-1]

    yield start
    for client in clients:
        client.close()
    for server in servers:
        server.shutdown()
        server.server_close()
