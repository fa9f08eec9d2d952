"""A studio's page, served by a thread of this process, for as long as a test needs it."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dfml import Initialisation
from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.play.server import PlayServer
from dfml.play.studio import open_studio
from dfml.rng import stream
from play.played import Played

Play = Callable[..., Played]


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained network of 16 pixels, which sees colours; in a folder, as a run leaves it."""
    spec = NetSpec(width=4, size=16, way=3)
    folder = tmp_path_factory.mktemp("run")
    Initialisation(Net(spec).init(stream(0, "init")), spec).save(folder / "init.safetensors")
    return folder


@pytest.fixture
def play(run_folder: Path, tmp_path: Path) -> Iterator[Play]:
    """`play(path, ask=..., budget=...)` serves a page; without a path, of an untrained network."""
    running: list[tuple[PlayServer, threading.Thread, httpx.Client]] = []

    def start(path: Path | None = None, **settings: Any) -> Played:
        if path is None:
            settings = {"out": tmp_path / "clf"} | settings
        studio = open_studio(path or run_folder, **settings)
        server = PlayServer(studio)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        client = httpx.Client(base_url=server.address, timeout=60)
        running.append((server, thread, client))
        return Played(server.address, studio, client)

    yield start
    for server, thread, client in running:
        client.close()
        server.stop()
        thread.join(20)
        with server:
            assert not thread.is_alive()
