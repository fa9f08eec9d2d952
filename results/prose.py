"""Numbers in sentences, from the same files as the tables.

A page says <!-- n FORMAT EXPRESSION -->12.3<!-- end -->, and the number between the marks is the expression's value in
that format. An expression is Python over the names below: `ss("bidf-mkd", 5)` is the accuracy of that row of tab:ss at
five shots, `gains(ss, ["vanilla", "bidf-mkd"], ["random"])` a list of all differences, of which `min` may be taken.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from dfml.bench.results import ResultTable, load_table, read_json

HERE = Path(__file__).parent
FOLDERS = ("bench", "real")
MARK = re.compile(r"<!-- n (\S+) (.+?) -->.*?<!-- end -->", re.DOTALL)
Lookup = Callable[..., float]


def find_table(name: str) -> ResultTable | None:
    """A table of `dfml bench`, by the name of its file."""
    for folder in (HERE / place for place in FOLDERS):
        if (path := folder / "tables" / f"{name}.json").exists():
            return load_table(read_json(path), folder)
    return None


def lookup(name: str) -> Lookup:
    """The accuracies of a table: row or label, shots, and the head they were measured under."""

    def accuracy(row: str, shot: int, head: str = "finetune") -> float:
        table = find_table(name)
        lines = [line for line in (table.lines if table else ()) if row in (line.label, line.row)]
        found = [score for line in lines if (score := line.value(head, shot)) is not None]
        if len(found) != 1:
            raise LookupError(f"{name} has {len(found)} results of {row!r} at {shot} shots under {head}, not one")
        return found[0].mean

    return accuracy


def gains(
    table: Lookup, above: Iterable[str], below: Iterable[str], shots: Iterable[int] = (1, 5), head: str = "finetune"
) -> list[float]:
    """How much each row of the one kind is above each of the other, at every number of shots."""
    return [table(a, shot, head) - table(b, shot, head) for a, b, shot in product(above, below, shots)]


def published_gains(name: str, rows: Iterable[str], shots: Iterable[int] = (1, 5)) -> list[float]:
    """How much each row is above what the paper reports for it, under the paper's own head."""
    found = find_table(name)
    lines = {line.row: line for line in (found.lines if found else ())}
    return [lookup(name)(row, shot) - lines[row].published[shot].mean for row, shot in product(rows, shots)]


def cell(names: list[str], *, head: str, shot: int) -> str:
    """Mean over runs of the accuracy, and the mean half-width of the runs' own 95 % intervals."""
    results = found(names, head=head, shot=shot)
    if not results:
        return "n/a"
    ci95 = sum(r["ci95"] for r in results) / len(results)
    return f"{mean(names, head=head, shot=shot):.1f} ± {ci95:.1f}"


def asked(table: str, row: str) -> float:
    """Queries an API of a row on CIFAR-FS."""
    (line,) = (line for line in find_table(f"laptop-cifar-fs-{table}").lines if row in (line.label, line.row))
    return line.queries


def found(names: list[str], *, head: str, shot: int) -> list[dict[str, Any]]:
    """The results of these runs under one head, at one number of shots."""
    paths = [path for name in names if (path := HERE / f"{name}.json").exists()]
    results = [result for path in paths for result in json.loads(path.read_text())]
    return [r for r in results if (r["head"], r["shot"]) == (head, shot)]


def mean(names: list[str], *, head: str, shot: int) -> float | None:
    """Mean over runs of the accuracy."""
    results = found(names, head=head, shot=shot)
    return sum(r["mean"] for r in results) / len(results) if results else None


def runs(name: str, variant: str = "") -> list[str]:
    """The results of all seeds of one setting, such as accuracy/chorus-500, without their suffix."""
    folder, _, stem = name.rpartition("/")
    pattern = re.compile(re.escape(stem) + r"-\d+" + re.escape(f"-{variant}" if variant else ""))
    found = (path.stem for path in (HERE / folder).glob("*.json") if pattern.fullmatch(path.stem))
    return sorted(f"{folder}/{each}" for each in found)


def reached(name: str, shot: int, head: str = "finetune") -> float | None:
    """Mean accuracy over all seeds of one setting, such as headline/bidf-mkd-100."""
    return mean(runs(name), head=head, shot=shot)


def live(name: str, share: float, shot: int) -> float:
    """What `dfml evaluate --ask` found at one share of queries a prediction."""
    results = json.loads((HERE / f"{name}.json").read_text())
    return next(float(r["mean"]) for r in results if (r["ask_share"], r["shot"]) == (share, shot))


def cells() -> Iterator[dict[str, Any]]:
    """All finished cells of the paper's tables."""
    yield from (read_json(path) for path in sorted((HERE / "bench" / "cells").glob("*.json")))


def hours() -> float:
    """What they took in all."""
    return sum(sum(cell["seconds"].values()) for cell in cells()) / 3600


def benchmark(name: str) -> dict[str, Any]:
    """What one of the benchmarks measured."""
    path = HERE / "speed" / "benchmarks.json"
    measured: dict[str, Any] = json.loads(path.read_text())["benchmarks"] if path.exists() else {}
    found: dict[str, Any] = measured.get(name, {})
    return found


def baseline(variant: str, shot: int, key: str = "mean") -> float:
    """What an untrained network reaches with one thing changed (results/random-baseline), or how sure that is."""
    rows = json.loads((HERE / "random-baseline" / "random-baseline.json").read_text())
    (found,) = (row for row in rows if row["variant"] == variant)
    return float(found[f"{shot}-shot"][key])


def stack_costs(*, far: bool) -> list[float]:
    """The share of a bare client's images a second that our side costs, next door or 20 ms away, in percent."""
    measured = benchmark("server")["images per second"]
    return [100 * (1 - r["ratio"]) for name, r in measured.items() if name.endswith("away") is far]


NAMES: dict[str, Any] = {
    **{
        name: lookup(f"laptop-cifar-fs-tab-{name}")
        for name in ("ss", "sh", "zofo", "ablation", "numberapi", "numberquery", "dfmeta10way")
    },
    "night": lookup("workstation-cifar-fs-tab-ss"),
    "night_mini": lookup("workstation-mini-imagenet-tab-ss"),
    "numshots": lookup("laptop-cifar-fs-fig-numshots"),
    "quality": lookup("laptop-cifar-fs-quality"),
    "queries": lookup("laptop-cifar-fs-queries"),
    "relatives": lookup("laptop-cifar-fs-relatives"),
    "mh": lookup("laptop-mh-tab-mh"),
    "mini": lookup("laptop-mini-imagenet-tab-ss"),
    "cub": lookup("laptop-cub-tab-ss"),
    "real": lookup("test-cifar-fs-real"),
    **{f.__name__: f for f in (gains, published_gains, asked, runs, mean, reached, live)},
    **{f.__name__: f for f in (hours, benchmark, baseline, stack_costs)},
    **{f.__name__: f for f in (min, max, abs, sum, len)},
}


def quoted(page: str) -> str:
    """`page` with every number between its marks made anew."""

    def number(match: re.Match[str]) -> str:
        value = eval(match[2], {"__builtins__": {}, **NAMES})  # of our own pages, over the names above alone
        return f"<!-- n {match[1]} {match[2]} -->{value:{match[1]}}<!-- end -->"

    return MARK.sub(number, page)
