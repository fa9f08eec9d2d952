"""Chorus through what endpoints do to a query: `python -m benchmarks.remote_conditions ZOO WORK [CONDITION...]`.

exact     the zoo as it is, without a server
decimals  PNG uploads, scores of 3 decimals
top-3     PNG uploads, the 3 best scores of 3 decimals
label     PNG uploads, the winning label alone

All but the first go through `dfml serve` and the Hugging Face protocol, one image a request. Leaves a run folder
WORK/CONDITION-SEED for each, to be evaluated with `dfml evaluate`.
"""

import argparse
from pathlib import Path
from typing import Any

import tomli_w
import torch
from benchmarks.as_measured import AS_MEASURED
from benchmarks.endpoint import serving

import dfml
from dfml.apis.manifest import read_manifest

CONDITIONS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "exact": ((), {}),
    "decimals": (("--decimals", "3"), {"decimals": 3}),
    "top-3": (("--decimals", "3", "--top-k", "3"), {"decimals": 3, "kind": "top-k", "top_k": 3}),
    "label": (("--label-only",), {"kind": "label"}),
}
"""how the server answers, and what the manifest says of it"""


def remote(zoo: Path, url: str, output: dict[str, Any]) -> str:
    """The manifest of the zoo behind `url`."""
    entries = read_manifest(zoo).entries
    apis = {
        name: {"model": name, "classes": list(entry.classes), "image": list(entry.image)}
        for name, entry in entries.items()
    }
    return tomli_w.dumps({"defaults": {"protocol": "huggingface", "url": url, "output": output}, "apis": apis})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zoo", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("conditions", nargs="*", default=list(CONDITIONS), metavar="CONDITION")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--queries", type=int, default=1000, help="an API")
    parser.add_argument("--steps", type=int, default=1500)
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.work.mkdir(parents=True, exist_ok=True)
    settings = [f"queries={args.queries}", f"distil.steps={args.steps}", *AS_MEASURED]
    for name in args.conditions:
        options, output = CONDITIONS[name]
        out = args.work / f"{name}-{args.seed}"
        if name == "exact":
            dfml.learn(args.zoo, out, settings=settings, seed=args.seed, resume=True)
            continue
        with serving(args.zoo, *options) as url:
            manifest = args.work / f"{name}-{args.seed}.toml"
            manifest.write_text(remote(args.zoo, url, output))
            dfml.learn(manifest, out, settings=settings, seed=args.seed, resume=True, budget_per_api=args.queries)


if __name__ == "__main__":
    main()
