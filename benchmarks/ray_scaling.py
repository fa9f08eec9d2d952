"""Asking servers 50 ms away by Ray nodes, one and two, and at home: `python -m benchmarks ray_scaling`.

The ideal is what waiting alone takes: latency x requests / requests under way at once. Whoever overlaps all waiting
comes near it, with any number of nodes. Starting Ray and its processes is not counted.
"""

import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w
import torch
from benchmarks.endpoint import serving
from benchmarks.spread import Took, measure, spread
from torch import Tensor

from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger import Ledger, Metered, ledger_path
from dfml.apis.loading import load_apis
from dfml.apis.manifest import ApiEntry, write_manifest
from dfml.engine.choice import Engine, open_engine
from dfml.images.prior import prior
from dfml.methods.chorus.asking import AnswerTable, ask_all
from dfml.nets import NetSpec
from dfml.nets.export import export_onnx
from dfml.rng import stream

APIS, CONNECTIONS, REQUESTS, BATCH = 8, 2, 120, 8
"""requests an API, images a request"""
LATENCY_MS, STORE, GOAL = 50, 80 << 20, 1.25
DROPS, ROUNDS = 2000, 3
WARM = 2 * CONNECTIONS * BATCH
"""images an API before the clock starts: processes are up, connections open"""


def write_zoo(folder: Path) -> Path:
    """Small networks that nobody trained: their answers cost a server next to nothing."""
    entries = {}
    for number in range(APIS):
        spec = ApiSpec(name=f"api-{number}", classes=("a", "b", "c"), image=(3, 16, 16))
        net = NetSpec(arch="conv4", way=3, size=16, width=4).build(rng=stream(number, "benchmark"))
        export_onnx(net, folder / f"{spec.name}.onnx", name=spec.name, classes=spec.classes, image=spec.image)
        entries[spec.name] = ApiEntry(file=f"{spec.name}.onnx", classes=spec.classes, image=spec.image)
    write_manifest(folder / "apis.toml", entries)
    return folder / "apis.toml"


def write_remote(path: Path, url: str) -> Path:
    """The same networks as a server offers them."""
    shared = {"protocol": "inference_v2", "url": url, "image": [3, 16, 16], "classes": ["a", "b", "c"]}
    limits = {"concurrency": CONNECTIONS, "images_per_request": BATCH}
    names = [f"api-{number}" for number in range(APIS)]
    tables = {"defaults": {**shared, "limits": limits}, "apis": {name: {"model": name} for name in names}}
    path.write_text(tomli_w.dumps(tables))
    return path


def ask(manifest: Path, run: Path, engine: Engine) -> Took:
    """What it takes here to ask every API all questions, ledgers and all."""
    count = REQUESTS * BATCH
    images = prior(WARM + count, seed=0, size=16)
    with ExitStack() as books:
        apis = [
            Metered(api, books.enter_context(Ledger(ledger_path(run, api.spec.name))))
            for api in engine.spread(load_apis(manifest))
        ]

        def ask_about(pictures: Tensor) -> AnswerTable:
            rows = [torch.arange(len(pictures))] * APIS
            return ask_all(apis, pictures, rows=rows, workers=engine.workers, waiting=engine.waiting)

        ask_about(images[:WARM])
        took = measure(partial(ask_about, images[WARM:]))
        assert all(api.ledger.queries == WARM + count for api in apis)
    return took


class Dripping:
    """An API that answers at once, one image after the other: what then takes time is on the way and at home."""

    spec = ApiSpec(name="dripping", classes=("a", "b", "c"), image=(3, 32, 32))

    def __call__(self, images: Tensor) -> Tensor:
        return torch.full((len(images), 3), 1 / 3)

    def answers_in_parts(self, images: Tensor) -> Iterator[tuple[list[int], Tensor]]:
        """One row at a time."""
        for row in range(len(images)):
            yield [row], torch.full((1, 3), 1 / 3)


def drops_a_second(run: Path, engine: Engine) -> float:
    """Answers a second, each by itself, that reach this process from a node and are kept."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes need not have the benchmarks
    (api,) = engine.spread([Dripping()])
    images = torch.rand(DROPS, *api.spec.image, generator=stream(0, "drops"))
    with Ledger(ledger_path(run, "dripping")) as ledger:
        metered = Metered(api, ledger)
        metered(images[:WARM])
        start = time.perf_counter()
        metered(images[WARM:])
        return (DROPS - WARM) / (time.perf_counter() - start)


@contextmanager
def ray_nodes(count: int) -> Iterator[Engine]:
    """The engine on a cluster of so many nodes of one core each on this machine."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(count):
            cluster.add_node(num_cpus=1, object_store_memory=STORE)
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.CRITICAL)
        with open_engine("ray") as engine:
            yield engine
    finally:
        ray.shutdown()
        cluster.shutdown()


def run() -> dict[str, Any]:
    """Seconds of each engine, and how often they exceed the ideal."""
    torch.set_num_threads(1)
    ideal = LATENCY_MS / 1000 * REQUESTS / CONNECTIONS
    took: dict[str, list[Took]] = {}
    drops = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(write_zoo(folder), "--latency-ms", str(LATENCY_MS)) as url:
            manifest = write_remote(folder / "remote.toml", url)
            for nodes, name in ((1, "ray, 1 node"), (2, "ray, 2 nodes")):
                with ray_nodes(nodes) as cluster, open_engine("local") as home:
                    for turn in range(ROUNDS):
                        for where, engine in ((name, cluster), ("local", home)):
                            run = folder / f"{where} {nodes} {turn}"
                            took.setdefault(where, []).append(ask(manifest, run, engine))
                    drops = drops_a_second(folder / f"drops {nodes}", cluster)
    times = {name: spread([one.seconds / ideal for one in rounds]) for name, rounds in took.items()}
    work = spread([1e3 * one.processor_seconds / (APIS * REQUESTS) for one in took["local"]])
    ratio = max(value.median for name, value in times.items() if name.startswith("ray"))
    return {
        "name": "waiting on Ray nodes",
        "ratio": round(ratio, 3),
        "goal": GOAL,
        "met": ratio <= GOAL,
        "rounds": ROUNDS,
        "apis": APIS,
        "requests": APIS * REQUESTS,
        "under way at once": APIS * CONNECTIONS,
        "latency ms": LATENCY_MS,
        "ideal seconds": round(ideal, 2),
        "seconds": {name: round(ideal * value.median, 2) for name, value in times.items()},
        "times the ideal": {name: round(value.median, 3) for name, value in times.items()},
        "quartiles": {name: [round(value.low, 3), round(value.high, 3)] for name, value in times.items()},
        "processor milliseconds a request, local": work.rounded(3),
        "single answers a second through one process at home": round(drops),
        "line": f"{APIS * REQUESTS:,} requests to {APIS} servers {LATENCY_MS} ms away take "
        + ", ".join(f"{value.median:.2f} ({name})" for name, value in sorted(times.items()))
        + f" times the {ideal:.1f} s that waiting alone takes (goal: {GOAL}), and {work.median:.2f} ms of the "
        "processor a request",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
