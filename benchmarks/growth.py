"""How cost and memory grow with APIs and with queries: chorus on tiny APIs, each setting in a process of its own.

    python -m benchmarks growth --out results/speed/benchmarks.json
    python -m benchmarks.growth --plot docs/growth.svg         draws what stands in results/speed/benchmarks.json

10, 100 and 1,000 APIs of 250 queries, then 100 APIs of 250, 1,000 and 4,000. What is timed is asking (every answer in
its ledger); distilling has as many steps as it is told, whatever there is to learn, so its seconds a step are given
beside. The APIs are copies of one file: what they say does not matter here.
"""

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tomli_w

APIS, QUERIES, STEPS = (10, 100, 1_000), (250, 1_000, 4_000), 40
SPREAD, FLAT = 1.25, 0.1
"""the largest exponents that pass for a line and for no growth"""


def build(folder: Path, count: int) -> Path:
    """A manifest of `count` APIs: Conv4 of 4 filters on 16 x 16 pixels, behind onnxruntime."""
    from dfml.apis.blackbox import ApiSpec
    from dfml.nets import NetSpec
    from dfml.nets.export import export_onnx
    from dfml.rng import stream

    folder.mkdir()
    spec = ApiSpec(name="tiny", classes=tuple("abcde"), image=(3, 16, 16))
    net = NetSpec(width=4, size=16).build(rng=stream(0)).eval()
    export_onnx(net, folder / "0.onnx", name=spec.name, classes=spec.classes, image=spec.image)
    for number in range(1, count):
        shutil.copy(folder / "0.onnx", folder / f"{number}.onnx")
    apis = {
        f"tiny-{number}": {"file": f"{number}.onnx", "classes": list(spec.classes), "image": list(spec.image)}
        for number in range(count)
    }
    (folder / "apis.toml").write_text(tomli_w.dumps({"apis": apis}))
    return folder / "apis.toml"


def learn(manifest: Path, queries: int, out: Path) -> dict[str, float]:
    """Seconds of asking and of a step of distilling, and the peak of memory, of one run in this process."""
    import dfml
    from dfml.events import Event, LearningFinished, LearningStarted, Step

    at: dict[str, float] = {}
    peak = 0

    def hear(event: Event) -> None:
        nonlocal peak
        if isinstance(event, LearningStarted):
            at["start"] = time.perf_counter()
        elif isinstance(event, Step):
            at[event.stage] = time.perf_counter()
            if event.stage == "distilling" and event.done == 1:
                at["first step"] = time.perf_counter()
        elif isinstance(event, LearningFinished):
            peak = event.peak_memory_mb

    settings = [f"queries={queries}", f"distil.steps={STEPS}", "net.width=8"]
    dfml.learn(manifest, out, settings=settings, on_event=hear)
    return {
        "asking_seconds": round(at["asking"] - at["start"], 2),
        "step_seconds": round((at["distilling"] - at["first step"]) / (STEPS - 1), 4),
        "peak_memory_mb": peak,
    }


def measure(manifest: Path, apis: int, queries: int, out: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.growth", "--measure", str(manifest), str(queries), str(out)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    size = sum(file.stat().st_size for file in (out / "ledger").rglob("*"))
    shutil.rmtree(out)
    return {"apis": apis, "queries": queries, **json.loads(result.stdout), "ledger_mb": round(size / 2**20, 1)}


def exponent(rows: list[dict[str, float]], axis: str, cost: str) -> float:
    """The slope of log cost over log `axis` between the last two rows: 1 is a line, 0 does not grow."""
    before, last = rows[-2:]
    return math.log(last[cost] / before[cost]) / math.log(last[axis] / before[axis])


def run() -> dict[str, Any]:
    """All settings, and the exponents of the last tenfold and fourfold step."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        by_apis, by_queries = [], []
        for count in APIS:
            manifest = build(folder / str(count), count)
            by_apis.append(measure(manifest, count, QUERIES[0], folder / "run"))
        manifest = folder / str(APIS[1]) / "apis.toml"
        by_queries = [by_apis[1], *(measure(manifest, APIS[1], queries, folder / "run") for queries in QUERIES[1:])]
    exponents = {
        f"{cost} over {axis}": round(exponent(rows, axis, cost), 2)
        for axis, rows in (("apis", by_apis), ("queries", by_queries))
        for cost in ("asking_seconds", "peak_memory_mb")
    }
    steepest = max(exponents["asking_seconds over apis"], exponents["asking_seconds over queries"])
    answers = by_apis[-1]["apis"] * by_apis[-1]["queries"] - by_apis[-2]["apis"] * by_apis[-2]["queries"]
    a_query = 2**20 * (by_apis[-1]["peak_memory_mb"] - by_apis[-2]["peak_memory_mb"]) / answers
    return {
        "name": "growth",
        "ratio": steepest,
        "goal": SPREAD,
        "met": steepest <= SPREAD
        and max(value for name, value in exponents.items() if name.startswith("peak_memory")) <= FLAT,
        "exponents": exponents,
        "bytes of memory an answer": round(a_query),
        "by apis": by_apis,
        "by queries": by_queries,
        "line": f"asking costs (APIs)^{exponents['asking_seconds over apis']} and "
        f"(queries)^{exponents['asking_seconds over queries']}, where 1 is a line; from {APIS[1]} to {APIS[2]:,} APIs "
        f"memory grows from {by_apis[1]['peak_memory_mb']} to {by_apis[2]['peak_memory_mb']} MB",
    }


def plot(found: dict[str, Any], file: Path) -> None:
    """Seconds and memory over the number of answers, once for more APIs and once for more queries."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    for place, (cost, title) in enumerate(
        (("asking_seconds", "seconds of asking"), ("peak_memory_mb", "peak memory, MB")), start=1
    ):
        axes = figure.add_subplot(1, 2, place)
        for label, marker in (("by apis", "o"), ("by queries", "s")):
            rows = found[label]
            answers = [row["apis"] * row["queries"] for row in rows]
            axes.plot(
                answers, [row[cost] for row in rows], marker=marker, label=f"more {label[3:].replace('apis', 'APIs')}"
            )
        axes.set_xscale("log")
        if cost == "asking_seconds":
            first = found["by apis"][0]
            start = first["apis"] * first["queries"]
            ends = (start, 100 * start)
            line = [first[cost] * end / start for end in ends]
            axes.plot(ends, line, linestyle=":", color="grey", label="a line through the first point")
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.set(title=title, xlabel="answers (APIs times queries)")
        axes.legend(fontsize=8)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.plot:
        plot(json.loads(Path("results/speed/benchmarks.json").read_text())["benchmarks"]["growth"], arguments.plot)
    elif arguments.measure:
        manifest, queries, out = arguments.measure
        print(json.dumps(learn(Path(manifest), int(queries), Path(out))))
    else:
        print(json.dumps(run(), indent=2))
