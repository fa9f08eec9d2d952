"""The Markdown tables of the README and the docs, from the JSON files in the folders beside this script.

python results/table.py            prints them
python results/table.py --write    puts them where the pages say <!-- table NAME --> or, for a table of `dfml bench`,
                                   <!-- bench NAME -->, and numbers into sentences (see prose.py); tables of
                                   `dfml bench` get the rows and cells that they would be made of now
"""

import argparse
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

from prose import benchmark, cell, find_table, found, mean, quoted, runs
from real_tables import asking_table, own_pictures_table, refining_table, reliability_table

from dfml.bench.catalogue import make_table
from dfml.bench.results import PAPERS_HEADS, read_json, write_table
from dfml.bench.scales import SCALES
from dfml.bench.show import table_body
from dfml.evaluation.records import Score

HERE = Path(__file__).parent
COMPARING = ("prototype", "class-means")
PAGES = (
    "README.md",
    "docs/queries.md",
    "docs/bidf-mkd.md",
    "docs/serving.md",
    "docs/bench.md",
    "docs/relatives.md",
    "docs/scale.md",
    "docs/real.md",
)


def row(title: str, name: str, queries: str, *, head: str, variant: str = "") -> str:
    names = runs(f"accuracy/{name}", variant)
    cells = " | ".join(cell(names, head=head, shot=shot) for shot in (1, 5))
    return f"| {title} | {queries} | {head}{', ' * bool(variant)}{variant} | {cells} | {len(names)} |"


def accuracy_table() -> str:
    ten = spent("accuracy/bidf-mkd-10-queries")
    return "\n".join([
        "| method | queries an API | head | 1-shot | 5-shot | seeds |",
        "|---|---|---|---|---|---|",
        row("random, untrained", "random", "0", head="finetune"),
        row("random, untrained", "random", "0", head="prototype"),
        row("bidf-mkd, 10 APIs, 300 iterations", "bidf-mkd-10", ten, head="finetune"),
        row("bidf-mkd, 10 APIs, 300 iterations", "bidf-mkd-10", ten, head="prototype"),
        row("**chorus**, Conv4-32, 10 APIs", "chorus-100", "100", head="prototype"),
        row("**chorus**, Conv4-32, 100 APIs", "chorus-500", "500", head="prototype"),
        row("**chorus**, Conv4-32, 100 APIs", "chorus-500", "500", head="prototype", variant="product"),
        row("**chorus**, Conv4-32, 100 APIs", "chorus-500", "500", head="answers", variant="product"),
        row("**chorus**, 100 APIs", "usual-500", "500", head="prototype", variant="product"),
        row("**chorus**, 100 APIs", "usual-500", "500", head="answers", variant="product"),
        row("**chorus**, Conv4-32, 100 APIs", "chorus-5000", "5,000", head="prototype"),
        row("**chorus**, Conv4-32, 100 APIs", "chorus-5000", "5,000", head="prototype", variant="centred"),
        row("**chorus**, Conv4-32, 100 APIs", "chorus-5000", "5,000", head="prototype", variant="product"),
        row("**chorus**, Conv4-32, 100 APIs", "chorus-5000", "5,000", head="answers"),
        row("**chorus**, Conv4-32, 100 APIs", "chorus-5000", "5,000", head="answers", variant="product"),
        row("**chorus**, `strong`, 100 APIs", "strong", "5,000", head="prototype", variant="product"),
        row("**chorus**, `strong`, 100 APIs", "strong", "5,000", head="answers", variant="product"),
        "| *the paper:* BiDf-MKD, 100 APIs | *millions* | *its own* | *35.48 ± 0.67* | *47.58 ± 0.74* | |",
        "| *the paper:* its white-box bound | | *its own* | *37.66 ± 0.75* | *51.16 ± 0.79* | |",
    ])  # fmt: skip


def headline_table() -> str:
    """The paper's own number of APIs, beside where learning begins and what the paper reports."""
    kinds = {
        "bidf-mkd-100": ("BiDf-MKD, 100 APIs, from short filters", spent("headline/queries")),
        "vanilla-100": ("the same, replay alone (Vanilla)", spent("headline/vanilla-queries")),
        "random-short": ("the untrained network that both begin with", "0"),
        "usual-100": ("BiDf-MKD, 100 APIs, from filters of the usual length", spent("headline/usual-queries")),
    }
    lines = ["| | queries an API | head | 1-shot | 5-shot | seeds |", "|---|---|---|---|---|---|"]
    for head, (name, (title, queries)) in product(("finetune", "prototype"), kinds.items()):
        names = runs(f"headline/{name}")
        if found(names, head=head, shot=5):
            cells = " | ".join(cell(names, head=head, shot=shot) for shot in (1, 5))
            lines.append(f"| {title} | {queries} | {head} | {cells} | {len(names)} |")
    return "\n".join([*lines, "| *the paper:* BiDf-MKD | *millions* | *its own* | *35.48 ± 0.67* | *47.58 ± 0.74* | |"])


def roles_table() -> str:
    """What replay draws from, on validation classes."""
    titles = {
        "pooled": "from all sets of a class",
        "roles": "support from support sets, queries from query sets",
        "drawn": "from all sets, which are the best of 1,000 drawn images each",
    }
    lines = ["| replay draws | 1-shot | 5-shot |", "|---|---|---|"]
    for name, title in titles.items():
        cells = " | ".join(cell(runs(f"roles/{name}"), head="finetune", shot=shot) for shot in (1, 5))
        lines.append(f"| {title} | {cells} |")
    return "\n".join(lines)


def inductive_table() -> str:
    lines = ["| BatchNorm statistics | 1-shot | 5-shot |", "|---|---|---|"]
    titles = {"inductive/transductive-val": "of the task's own batch (transductive)"}
    for path in sorted((HERE / "inductive").glob("val-*.json")):
        weight = float(path.stem.rsplit("-", 1)[1])
        titles[f"inductive/{path.stem}"] = f"frozen: {weight:.0%} support set, {1 - weight:.0%} learning"
    for name, title in titles.items():
        cells = " | ".join(cell([name], head="prototype", shot=shot) for shot in (1, 5))
        lines.append(f"| {title} | {cells} |")
    return "\n".join(lines)


def reach_table() -> str:
    path = HERE / "reach" / "reach.json"
    if not path.exists():
        return "n/a"
    lines = [
        "| endpoint | APIs | images | reached their target | queries an image: mean, most |",
        "|---|---|---|---|---|",
    ]
    for name, rows in json.loads(path.read_text())["endpoints"].items():
        images = sum(r["images"] for r in rows)
        reached = sum(r["reached"] * r["images"] for r in rows) / images
        costs = [r["queries_per_image"] for r in rows]
        mean = sum(costs) / len(costs)
        lines.append(f"| {name} | {len(rows)} | {images} | {100 * reached:.1f} % | {mean:.0f}, {max(costs):.0f} |")
    return "\n".join(lines)


def conditions_table() -> str:
    titles = {
        "exact": "100 Conv4 APIs, exact probabilities",
        "labels-8bit": "the same, labels only, through 8-bit images",
        "ten": "the first 10 of them, exact probabilities",
        "ten+ten": "those 10 and 10 useless or hostile ones",
        "forests": "15 forests alone",
    }
    lines = ["| teachers, 1,000 queries each | 1-shot | 5-shot | seeds |", "|---|---|---|---|"]
    for name, title in titles.items():
        names = runs(f"conditions/{name}")
        cells = " | ".join(cell(names, head="prototype", shot=shot) for shot in (1, 5))
        lines.append(f"| {title} | {cells} | {len(names)} |")
    return "\n".join(lines)


def speed_table() -> str:
    path = HERE / "speed" / "benchmarks.json"
    if not path.exists():
        return "n/a"
    results = json.loads(path.read_text())["benchmarks"].values()
    return "\n".join(f"- {'' if r['met'] else '**short:** '}{r['line']}" for r in results)


CONDITIONS = {
    "exact": "exact local answers",
    "decimals": "PNG uploads, 3 decimals",
    "top-3": "PNG uploads, the 3 best scores, 3 decimals",
    "label": "PNG uploads, the winning label alone",
}


def remote_table() -> str:
    """What real endpoints' answers cost chorus, at equal queries."""
    lines = ["| answers | 1-shot | 5-shot | against exact | seeds |", "|---|---|---|---|---|"]
    exact = [mean(runs("remote/exact"), head="prototype", shot=shot) for shot in (1, 5)]
    for name, title in CONDITIONS.items():
        files = runs(f"remote/{name}")
        cells = " | ".join(cell(files, head="prototype", shot=shot) for shot in (1, 5))
        means = [mean(files, head="prototype", shot=shot) for shot in (1, 5)]
        lost = [
            f"{own - best:+.1f}" for own, best in zip(means, exact, strict=True) if own is not None and best is not None
        ]
        lines.append(f"| {title} | {cells} | {' / '.join(lost) if name != 'exact' else ''} | {len(files)} |")
    return "\n".join(lines)


def throughput_table() -> str:
    """Images a second through connector and ledger, beside a client that does nothing but send."""
    measured = benchmark("server")["images per second"]
    lines = ["| what travels | bare client | whole stack | ratio |", "|---|---|---|---|"]
    for name, r in measured.items():
        lines.append(f"| {name} | {r['bare']:,} | {r['whole stack']:,} | {r['ratio']:.2f} |")
    return "\n".join(lines)


def waiting_table() -> str:
    """Asking servers 50 ms away."""
    measured = benchmark("ray_scaling")
    if not measured:
        return "n/a"
    lines = ["| asked from | seconds | times the ideal |", "|---|---|---|"]
    lines += [
        f"| {name} | {seconds:.1f} | {measured['times the ideal'][name]:.2f} |"
        for name, seconds in measured["seconds"].items()
    ]
    return "\n".join([*lines, f"| *waiting alone* | *{measured['ideal seconds']:.1f}* | *1* |"])


def growth_table() -> str:
    """What more APIs and more queries cost."""
    measured = benchmark("growth")
    if not measured:
        return "n/a"
    lines = [
        "| APIs | queries each | seconds of asking | seconds a step of distilling | peak memory | ledgers on disk |",
        "|---|---|---|---|---|---|",
    ]
    for row in [*measured["by apis"], *measured["by queries"][1:]]:
        lines.append(
            f"| {row['apis']:,} | {row['queries']:,} | {row['asking_seconds']:.1f} | {row['step_seconds']:.3f} | "
            f"{row['peak_memory_mb']} MB | {row['ledger_mb']:.1f} MB |"
        )
    return "\n".join(lines)


def hearing_table() -> str:
    """What more APIs make of an update of the student."""
    measured = benchmark("distilling")
    if not measured:
        return "n/a"
    lines = ["| APIs | hears at most 256 of them | hears all |", "|---|---|---|"]
    lines += [
        f"| {row['apis']:,} | {1000 * row['of 256']:.0f} ms | {1000 * row['of all']:.0f} ms |"
        for row in measured["by apis"]
    ]
    return "\n".join(lines)


def spent(name: str) -> str:
    """Queries an API on average, as the runs' own ledgers counted them."""
    path = HERE / f"{name}.json"
    if not path.exists():
        return "n/a"
    totals = [spending["queries"] / len(spending["apis"]) for spending in json.loads(path.read_text())]
    return f"{sum(totals) / len(totals):,.0f}"


def random_table() -> str:
    path = HERE / "random-baseline" / "random-baseline.json"
    if not path.exists():
        return "n/a"
    lines = ["| one thing changed | 1-shot | 5-shot |", "|---|---|---|"]
    for row in json.loads(path.read_text()):
        one, five = (f"{row[key]['mean']:.1f} ± {row[key]['ci95']:.1f}" for key in ("1-shot", "5-shot"))
        lines.append(f"| {row['variant']} | {one} | {five} |")
    return "\n".join(lines)


def bench_table(name: str) -> str:
    """A table of `dfml bench`, as far as its cells have come in."""
    found = find_table(name)
    return "n/a" if found is None else table_body(found)


def summary_table() -> str:
    """tab:ss in short: a line a row, the paper's value beside ours."""
    found = find_table("workstation-cifar-fs-tab-ss")
    if found is None:
        return "n/a"
    lines = [
        "| | queries an API | fine-tuned, 1 / 5 shots | by class means, 1 / 5 shots | published, 1 / 5 shots |",
        "|---|---|---|---|---|",
    ]
    for line in (line for line in found.lines if line.finished):
        tuned = _pair([line.value(head, shot) for shot in (1, 5) for head in line.heads if head in PAPERS_HEADS])
        compared = _pair([line.value(head, shot) for shot in (1, 5) for head in line.heads if head in COMPARING])
        queries = "" if not line.queries else f"{line.queries:,.0f}"
        lines.append(f"| {line.label} | {queries} | {tuned} | {compared} | {_pair(list(line.published.values()))} |")
    return "\n".join(lines)


def _pair(scores: list[Score | None]) -> str:
    return " / ".join(score.text for score in scores if score is not None)


TABLES = {
    "accuracy": accuracy_table,
    "summary": summary_table,
    "conditions": conditions_table,
    "headline": headline_table,
    "roles": roles_table,
    "inductive": inductive_table,
    "reach": reach_table,
    "speed": speed_table,
    "remote": remote_table,
    "throughput": throughput_table,
    "random": random_table,
    "waiting": waiting_table,
    "growth": growth_table,
    "hearing": hearing_table,
    "asking": asking_table,
    "reliability": reliability_table,
    "own": own_pictures_table,
    "refining": refining_table,
}


def filled(page: str) -> str:
    """`page` with every table and every number between its marks made anew."""

    def table(match: re.Match[str]) -> str:
        return f"<!-- table {match[1]} -->\n{TABLES[match[1]]()}\n<!-- end -->"

    def bench(match: re.Match[str]) -> str:
        return f"<!-- bench {match[1]} -->\n{bench_table(match[1])}\n<!-- end -->"

    page = re.sub(r"<!-- table (\w+) -->\n.*?<!-- end -->", table, page, flags=re.DOTALL)
    page = re.sub(r"<!-- bench ([\w-]+) -->\n.*?<!-- end -->", bench, page, flags=re.DOTALL)
    return quoted(page)


def planned(told: dict[str, Any]) -> dict[str, Any]:
    """The same table of `dfml bench` as the code would plan it now."""
    scale, seeds = SCALES[told["scale"]], told.get("seeds")
    return make_table(told["table"], scale, dataset=told["dataset"], seeds=seeds).content


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        for path in (HERE / "bench" / "tables").glob("*.json"):
            write_table(HERE / "bench", planned(read_json(path)))
        for name in PAGES:
            page = HERE.parent / name
            page.write_text(filled(page.read_text()))
    else:
        print("\n\n".join(make() for make in TABLES.values()))


if __name__ == "__main__":
    main()
