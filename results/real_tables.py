"""The tables of docs/real.md and of pictures of one's own, from the JSON files in the folders beside this script."""

import json
from pathlib import Path

from prose import cell

HERE = Path(__file__).parent


def asking_table() -> str:
    """What `dfml evaluate --ask` found by queries a prediction: accuracy, and how far probabilities are from it."""
    titles = {
        "four-test": "test classes, the four of ImageNet",
        "six-test": "test classes, with birds and CIFAR-10",
        "lite0-val": "validation classes, Lite0 alone",
    }
    lines = [
        "| | queries a prediction | 1-shot | 5-shot | calibration error, 1 and 5 shots | tasks |",
        "|---|---|---|---|---|---|",
    ]
    for name, title in titles.items():
        path = HERE / "real" / f"{name}.json"
        results = json.loads(path.read_text()) if path.exists() else []
        for share in dict.fromkeys(r["ask_share"] for r in results):
            one, five = (next(r for r in results if (r["ask_share"], r["shot"]) == (share, shot)) for shot in (1, 5))
            cells = " | ".join(f"{r['mean']:.1f} ± {r['ci95']:.1f}" for r in (one, five))
            gaps = " and ".join(f"{r['calibration_error']:.3f}" for r in (one, five))
            lines.append(f"| {title} | {one['queries_per_prediction']:.2f} | {cells} | {gaps} | {one['tasks']} |")
    return "\n".join(lines)


def reliability_table() -> str:
    """Predictions by the probability that the classifier gave them: how many of them are right."""
    path = HERE / "real" / "lite0-val.json"
    if not path.exists():
        return "n/a"
    asked = [r for r in json.loads(path.read_text()) if r["ask_share"] == 0.3]
    bins: dict[int, dict[int, tuple[float, float, int]]] = {}
    for r in asked:
        for said, right, count in r["reliability"]:
            bins.setdefault(min(9, int(10 * said)), {})[r["shot"]] = said, right, count
    lines = [
        "| 1 shot: says | is right | predictions | 5 shots: says | is right | predictions |",
        "|---|---|---|---|---|---|",
    ]
    for shots in (bins[place] for place in sorted(bins)):
        cells = [f"{100 * t[0]:.0f} % | {100 * t[1]:.0f} % | {t[2]:,}" if t else "| |" for t in map(shots.get, (1, 5))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def own_pictures_table() -> str:
    """What pictures of one's own are worth, on validation classes."""
    titles = {
        "1024": "1,024 and 1,000 drawn ones",
        "4096": "4,096 and 1,000 drawn ones",
        "strong-4096": "4,096 and 1,000 drawn ones, `--preset strong`",
    }
    lines = ["| pictures of one's own | head | 1-shot | 5-shot |", "|---|---|---|---|"]
    for name, title in titles.items():
        for head in ("prototype", "answers"):
            if (HERE / "own-pictures" / f"{name}.json").exists():
                cells = " | ".join(cell([f"own-pictures/{name}"], head=head, shot=shot) for shot in (1, 5))
                lines.append(f"| {title} | {head} | {cells} |")
    return "\n".join(lines)


def refining_table() -> str:
    """What has to be asked after so many predictions: the mean over tasks, and each task."""
    path = HERE / "refine" / "refine.json"
    if not path.exists():
        return "n/a"
    told = json.loads(path.read_text())
    tasks, offline, tenth = told["tasks"].values(), told["shares"].index(0.0), told["shares"].index(0.1)
    lines = [
        f"| predictions | offline | asking a tenth | queries a prediction for {told['wanted']:.0f} % | each task |",
        "|---|---|---|---|---|",
    ]
    for rows in zip(*tasks, strict=True):
        accuracies = [sum(row["accuracy"][place] for row in rows) / len(rows) for place in (offline, tenth)]
        needed = [row["share_needed"] for row in rows]
        each = ", ".join("not reached" if share is None else f"{share:.2f}" for share in needed)
        known = [share for share in needed if share is not None]
        mean = f"{sum(known) / len(known):.2f}" if len(known) == len(needed) else "n/a"
        cells = " | ".join(f"{value:.1f} %" for value in accuracies)
        lines.append(f"| {rows[0]['predictions']:,} | {cells} | {mean} | {each} |")
    return "\n".join(lines)
