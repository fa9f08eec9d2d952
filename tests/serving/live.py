"""`dfml serve` as a process of its own, as a user starts it, and manifests that name it."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from dfml.apis.manifest import read_manifest


@dataclass(frozen=True)
class Live:
    """A server that runs, and the process that it is."""

    url: str
    process: subprocess.Popen[str]

    def stats(self) -> dict[str, Any]:
        """The server's own count."""
        with urllib.request.urlopen(f"{self.url}/stats", timeout=30) as response:
            told: dict[str, Any] = json.load(response)
        return told


@contextmanager
def serving(zoo: Path, *options: str) -> Iterator[Live]:
    """A server of `zoo`, for as long as it is needed."""
    command = [sys.executable, "-m", "dfml", "serve", str(zoo), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            assert " at http://" in said, said + process.stdout.read()
            yield Live(said.split(" at ")[1].split(";")[0], process)
        finally:
            process.kill()


def write_remote(path: Path, zoo: Path, url: str, *, protocol: str, **groups: Any) -> Path:
    """A manifest of the APIs of `zoo` as they answer at `url`; `groups` such as `limits` hold for all of them."""
    entries = read_manifest(zoo).entries
    apis = {name: {"model": name, "classes": list(entry.classes)} for name, entry in entries.items()}
    image = list(next(iter(entries.values())).image)
    tables = {"defaults": {"protocol": protocol, "url": url, "image": image, **groups}, "apis": apis}
    path.write_text(tomli_w.dumps(tables))
    return path
