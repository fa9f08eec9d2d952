"""`dfml probe apis.toml`: a handful of queries to each API, and what it takes, answers and costs."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dfml.probing import CostEstimate, Findings


def add(verbs: Any) -> None:
    probe = verbs.add_parser("probe", help="ask each API a handful of times: what it takes, answers and costs")
    probe.add_argument("apis", type=Path, metavar="APIS", help="an apis.toml or a zoo folder")
    probe.add_argument("--only", action="append", metavar="NAME", help="one API; may be repeated")
    probe.add_argument(
        "--budget", type=int, metavar="QUERIES", help="an API may be asked (default: as many as it takes)"
    )
    probe.add_argument("--out", type=Path, metavar="FOLDER", help="keep the answers in FOLDER/ledger")
    probe.add_argument("--json", action="store_true", help="print JSON and nothing else")
    probe.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> int:
    import dataclasses

    from dfml.apis.blackbox import release
    from dfml.apis.loading import load_apis
    from dfml.cli.drawing import console, progress_console, table
    from dfml.probing import QUERIES, probe

    apis = load_apis(args.apis, only=args.only)
    if not args.json:
        progress_console.print(f"asking {len(apis)} APIs at most {QUERIES} times each")
    try:
        findings, estimates = probe(apis, budget=QUERIES if args.budget is None else args.budget, out=args.out)
    finally:
        for api in apis:
            release(api)
    failed = [found for found in findings if found.problem]
    if args.json:
        told = {
            "queries": sum(found.queries for found in findings),
            "unusable": sum(found.unusable for found in findings),
            "in_doubt": sum(found.in_doubt for found in findings),
            "apis": [dataclasses.asdict(found) for found in findings],
            "estimates": [dataclasses.asdict(estimate) for estimate in estimates],
        }
        print(json.dumps(told, indent=2))
        return 1 if failed else 0
    rows = [_row(found) for found in findings]
    titles = ("API", "image", "classes", "answers", "labels", "stable", "ms", "batch", "sees")
    console.print(table(titles, rows))
    for found in failed:
        console.print(found.problem, markup=False)
    _explain(findings, console)
    console.print(f"{_sent(findings)}; learning would cost")
    prices = ("method", "preset", "expected", "at most", "USD", "asking", "computing", "memory", "disk")
    console.print(table(prices, [_cost(estimate) for estimate in estimates]))
    return 1 if failed else 0


def _sent(findings: "list[Findings]") -> str:
    """How many queries were sent, and how many of them for nothing."""
    unusable, in_doubt = sum(found.unusable for found in findings), sum(found.in_doubt for found in findings)
    sent = sum(found.queries for found in findings) + unusable + in_doubt
    parts = [f"{unusable:,} got answers that cannot be used"] * bool(unusable)
    parts += [f"{in_doubt:,} got none"] * bool(in_doubt)
    return f"{sent:,} queries were sent" + f" ({', '.join(parts)})" * bool(parts)


def _row(found: "Findings") -> tuple[str, ...]:
    """Image size and bits, classes, what an answer holds, by how many bits labels vary, whether an answer is the same
    twice, milliseconds an image alone and in a batch, and the shortest probe that changes an answer."""
    size = "x".join(map(str, found.image)) + " 8 bit" * bool(found.levels)
    if found.output is None:
        return found.name, size, str(len(found.classes)), "failed", "", "", "", "", ""
    exact = "exact" if found.decimals is None else f"{found.decimals} decimals"
    kind = {"probs": f"all, {exact}", "top-k": f"top {found.named}, {exact}", "label": "label"}[found.output]
    return (
        found.name,
        size,
        str(len(found.classes)),
        kind,
        f"{found.label_entropy or 0:.1f} bits",
        "yes" if found.deterministic else "no",
        f"{1000 * (found.seconds or 0):.0f}",
        f"{1000 * (found.seconds_in_batch or 0):.1f}",
        "nothing" if found.visible_radius is None else f"{found.visible_radius:g}",
    )


def _explain(findings: "list[Findings]", console: Any) -> None:
    """In words, where zero-order probes are blind, and where labels say nothing."""
    asked = [found for found in findings if found.output is not None]
    alike = [found for found in asked if not found.label_entropy]
    if alike:
        console.print(
            f"{len(alike)} of {len(asked)} APIs call all pictures of this probe the same, {alike[0].name} among them; "
            "pictures of your own may tell more of them (learn --images)",
            markup=False,
        )
    blind = [found for found in asked if not found.sees_paper_radius]
    if blind:
        radii = {found.visible_radius for found in blind}
        largest = None if None in radii else max(radius for radius in radii if radius is not None)
        advice = (
            "none of the radii that were tried changes every answer: use chorus, which needs no probes"
            if largest is None
            else f"use recovery.radius={largest:g} or more with bidf-mkd"
        )
        console.print(f"{len(blind)} of {len(asked)} APIs do not notice the paper's probes of length 0.005; {advice}")
    small = [found for found in asked if found.images_per_request is not None and found.images_per_request < 8]
    if small:
        console.print(
            f"{len(small)} APIs take few images a request ({small[0].name}: {small[0].images_per_request}); "
            "limits.concurrency makes up for that"
        )


def _cost(estimate: "CostEstimate") -> tuple[str, ...]:
    from dfml.words import amount, duration

    asking = "" if estimate.seconds is None else duration(estimate.seconds)
    usd = f"{estimate.usd:,.2f}" if estimate.usd else ""
    needs = duration(estimate.computing), amount(estimate.memory), amount(estimate.disk)
    return estimate.method, estimate.preset, f"{estimate.expected:,}", f"{estimate.queries:,}", usd, asking, *needs
