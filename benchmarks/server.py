"""Throughput of the remote stack, ledger and all, against a bare client: `python -m benchmarks server`.

The bare client sends ready-made requests over raw sockets and does not look at the answers, as `wrk` does. Both talk to
the same `dfml serve`, with the same encoding, batch size and number of connections, in turns.
"""

import json
import socket
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import tomli_w
import torch
from benchmarks.endpoint import serving
from benchmarks.ledger import conv4

import dfml
from dfml.apis.ledger import Ledger, Metered
from dfml.apis.remote.host import HttpRequest
from dfml.rng import stream
from dfml.runtime import keep_freed_memory

CONNECTIONS, ROUNDS, DELAY_MS, GOAL = 4, 9, 20, 0.8
WAYS: dict[str, dict[str, Any]] = {
    "V2, binary FP32, 32 images a request": {"protocol": "inference_v2", "images": 1024, "batch": 32},
    "V2, binary UINT8, 32 images a request": {"protocol": "inference_v2", "images": 1024, "batch": 32, "as": "uint8"},
    "Hugging Face, PNG, one image a request": {"protocol": "huggingface", "images": 256, "batch": 1},
}


def raw(message: HttpRequest) -> bytes:
    """A request as it goes over the wire."""
    head = {**message.headers, "Host": "localhost", "Content-Length": str(len(message.body))}
    lines = [f"POST /{message.url.split('/', 3)[3]} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
    return "\r\n".join([*lines, "", ""]).encode() + message.body


def exchange(wire: socket.socket, request: bytes) -> None:
    """Send, and read as many bytes as the answer has."""
    wire.sendall(request)
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += wire.recv(2**16)
    assert data.startswith(b"HTTP/1.1 200 "), data[:200]
    length = int(data[:end].lower().split(b"content-length:")[1].split(b"\r\n")[0])
    missing = end + 4 + length - len(data)
    while missing > 0:
        missing -= len(wire.recv(2**16))


class Bare:
    """Raw sockets, kept open, each with a thread of its own."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self.wires = [socket.create_connection((host, int(port))) for _ in range(CONNECTIONS)]
        for wire in self.wires:
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pool = ThreadPoolExecutor(CONNECTIONS)

    def send(self, requests: list[bytes]) -> None:
        """All requests, as fast as the server takes them."""
        waiting = iter(requests)  # next() on a list's iterator is atomic

        def work(wire: socket.socket) -> None:
            for request in waiting:
                exchange(wire, request)

        list(self.pool.map(work, self.wires))

    def close(self) -> None:
        self.pool.shutdown()
        for wire in self.wires:
            wire.close()


def compare(kept: Path, url: str, spec: dfml.ApiSpec, way: dict[str, Any]) -> dict[str, float]:
    """Images a second of both, by the median round."""
    table = {
        "protocol": way["protocol"],
        "url": url,
        "model": spec.name,
        "classes": list(spec.classes),
        "image": list(spec.image),
        "limits": {"concurrency": CONNECTIONS, "images_per_request": way["batch"]},
        **({"input": {"encoding": way["as"]}} if "as" in way else {}),
    }
    manifest = kept.with_suffix(".toml")
    manifest.write_text(tomli_w.dumps({"apis": {spec.name: table}}))
    (api,) = dfml.load_apis(manifest)
    rng, count, times = stream(0, "images"), way["images"], []
    with Ledger(kept, budget=10**9) as ledger, closing(Bare(url)) as bare:
        metered = Metered(api, ledger)
        form = api.format.forms[0]  # type: ignore[attr-defined]

        def stack(images: torch.Tensor) -> float:
            start = time.perf_counter()
            metered(images)
            return time.perf_counter() - start

        def bare_client(images: torch.Tensor) -> float:
            parts = images.split(way["batch"])
            requests = [raw(api.format.request(part, form)) for part in parts]  # type: ignore[attr-defined]
            start = time.perf_counter()
            bare.send(requests)
            return time.perf_counter() - start

        for turn in range(ROUNDS + 1):
            fresh, other = torch.rand(2, count, *spec.image, generator=rng)
            if turn % 2:
                times.append((bare_client(fresh), stack(other)))
            else:
                times.append((stack(fresh), bare_client(other))[::-1])
        assert ledger.queries == count * (ROUNDS + 1)
    api.close()  # type: ignore[attr-defined]
    without, through = (count / statistics.median(side) for side in zip(*times[1:], strict=True))
    return {"bare": round(without), "whole stack": round(through), "ratio": round(through / without, 3)}


def run() -> dict[str, Any]:
    """The smallest of the ratios counts. With a delay, as of another machine, client and server share no processor."""
    torch.set_num_threads(1)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = conv4(folder).spec
        local = {"file": "conv4.onnx", "classes": list(spec.classes), "image": list(spec.image)}
        (folder / "apis.toml").write_text(tomli_w.dumps({"apis": {spec.name: local}}))
        found = {}
        for delay in (0, DELAY_MS):
            with serving(folder / "apis.toml", "--latency-ms", str(delay)) as url:
                for title, way in WAYS.items():
                    ledger = folder / f"{title}-{delay}.sqlite"
                    found[title + f", {delay} ms away" * bool(delay)] = compare(ledger, url, spec, way)
    ratio = min(each["ratio"] for each in found.values())
    return {
        "name": "remote throughput",
        "ratio": ratio,
        "goal": GOAL,
        "met": ratio >= GOAL,
        "images per second": found,
        "line": f"Through connector and ledger come {ratio:.0%} of the images a second that a bare client with "
        f"ready-made requests gets from the same server (goal: {GOAL:.0%})",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
