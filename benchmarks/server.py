"""Throughput of the remote stack, ledger and all, against a bare client: `python -m benchmarks server`.

The bare client is urllib3 with ready-made requests, and does not look at the answers. Both talk to the same `dfml
serve`, with the same encoding, batch size and number of connections, in turns.
"""

import json
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w
import torch
import urllib3
from benchmarks.endpoint import serving
from benchmarks.ledger import conv4
from benchmarks.spread import in_turns, ratios, spread

import dfml
from dfml.apis.ledger import Ledger, Metered
from dfml.apis.remote.host import HttpRequest
from dfml.rng import stream
from dfml.runtime import keep_freed_memory

CONNECTIONS, ROUNDS, DELAY_MS, GOAL = 4, 9, 20, 0.8
WAYS: dict[str, dict[str, Any]] = {
    "V2, binary FP32, 32 images a request": {"protocol": "inference_v2", "images": 1024, "batch": 32},
    "V2, binary UINT8, 32 images a request": {"protocol": "inference_v2", "images": 1024, "batch": 32, "as": "uint8"},
    (SINGLE := "Hugging Face, PNG, one image a request"): {"protocol": "huggingface", "images": 256, "batch": 1},
}


class Bare:
    """A pool of urllib3, and as many threads as it has connections."""

    def __init__(self, url: str) -> None:
        self.wires = urllib3.connection_from_url(url, maxsize=CONNECTIONS, block=True)
        self.pool = ThreadPoolExecutor(CONNECTIONS)

    def send(self, requests: list[HttpRequest]) -> None:
        """All requests, as fast as the server takes them."""
        waiting = iter(requests)  # next() on a list's iterator is atomic

        def work(_: int) -> None:
            for request in waiting:
                path = "/" + request.url.split("/", 3)[3]
                reply = self.wires.urlopen("POST", path, request.body, dict(request.headers), retries=False)
                assert reply.status == 200, reply.data[:200]

        list(self.pool.map(work, range(CONNECTIONS)))

    def close(self) -> None:
        self.pool.shutdown()
        self.wires.close()


def compare(kept: Path, url: str, spec: dfml.ApiSpec, way: dict[str, Any]) -> dict[str, Any]:
    """Images a second of both, by the median round, and what an exchange takes of the processor."""
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
    rng, count, batch = stream(0, "images"), way["images"], way["batch"]
    with Ledger(kept, budget=10**9) as ledger, closing(Bare(url)) as bare:
        metered = Metered(api, ledger)
        form = api.format.forms[0]  # type: ignore[attr-defined]

        def fresh() -> torch.Tensor:
            return torch.rand(count, *spec.image, generator=rng)

        def bare_client() -> Callable[[], object]:
            parts = fresh().split(batch)
            return partial(bare.send, [api.format.request(part, form) for part in parts])  # type: ignore[attr-defined]

        times = in_turns({"bare": bare_client, "whole stack": lambda: partial(metered, fresh())}, rounds=ROUNDS)
        assert ledger.queries == count * (ROUNDS + 1)
    api.close()  # type: ignore[attr-defined]
    _, speed = ratios(times["bare"], times["whole stack"])
    return {
        **{who: round(count / spread([took.seconds for took in rounds]).median) for who, rounds in times.items()},
        "ratio": round(speed.median, 3),
        "quartiles": [round(speed.low, 3), round(speed.high, 3)],
        "processor milliseconds an exchange": {
            who: spread([1e3 * batch / count * took.processor_seconds for took in rounds]).rounded(3)
            for who, rounds in times.items()
        },
    }


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
    title, least = min(found.items(), key=lambda item: item[1]["ratio"])
    low, high = least["quartiles"]
    single = found[SINGLE]["processor milliseconds an exchange"]
    ours, theirs = (single[who]["median"] for who in ("whole stack", "bare"))
    return {
        "name": "remote throughput",
        "ratio": least["ratio"],
        "goal": GOAL,
        "met": least["ratio"] >= GOAL,
        "rounds": ROUNDS,
        "images per second": found,
        "line": f"Through connector and ledger come {least['ratio']:.0%} ({low:.0%} to {high:.0%}; {title}) of the "
        "images a second that a bare client with ready-made requests gets from the same server "
        f"(goal: {GOAL:.0%}); with one image a request, an exchange takes {ours:.2f} ms of the processor "
        f"instead of {theirs:.2f}",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
