"""`dfml serve` as a process of its own, as a user starts it, and manifests that name it."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w

from dfml.apis.manifest import read_manifest


@contextmanager
def serving(zoo: Path, *options: str) -> Iterator[str]:
    """The address of a server of `zoo`, for as long as it is needed."""
    command = [sys.executable, "-m", "dfml", "serve", str(zoo), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            assert " at http://" in said, said + process.stdout.read()
            yield said.split(" at ")[1].split(";")[0]
        finally:
            process.kill()


def stats(url: str) -> dict[str, Any]:
    """The server's own count."""
    with urllib.request.urlopen(f"{url}/stats", timeout=30) as response:
        told: dict[str, Any] = json.load(response)
    return told


def write_remote(path: Path, zoo: Path, url: str, *, protocol: str, **defaults: Any) -> Path:
    """A manifest of the APIs of `zoo` as they answer at `url`, with tables such as `limits` for all of them."""
    where = "{url}/models/{name}" if protocol == "huggingface" else "{url}"
    apis = {
        name: {"url": where.format(url=url, name=name), "model": name, "classes": list(entry.classes)}
        for name, entry in read_manifest(zoo)[0].items()
    }
    image = list(next(iter(read_manifest(zoo)[0].values())).image)
    tables = {"defaults": {"protocol": protocol, "image": image, **defaults}, "apis": apis}
    path.write_text(tomli_w.dumps(tables))
    return path
