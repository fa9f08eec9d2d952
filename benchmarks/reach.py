"""How many queries an image takes to reach its target at an API: `python -m benchmarks.reach ZOO --apis 10 --out FILE`.

Each API is asked as it is and as an endpoint would answer: 8-bit images in, 3 decimals out.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import torch

from dfml.apis.blackbox import BlackBox
from dfml.apis.degrade import Quantised, Rounded
from dfml.apis.loading import load_apis
from dfml.recovery.inversion import EFFICIENT, invert
from dfml.rng import stream
from dfml.runtime import keep_freed_memory


def measure(api: BlackBox) -> dict[str, object]:
    """One recovered set, 30 images a class."""
    recovered = invert(api, EFFICIENT, rng=stream(0, "reach", api.spec.name))
    images = len(recovered.images)
    return {
        "api": api.spec.name,
        "images": images,
        "reached": round(recovered.reached, 4),
        "queries_per_image": round(recovered.queries / images, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("zoo", type=Path)
    parser.add_argument("--apis", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    rows: dict[str, list[dict[str, object]]] = {"exact": [], "8-bit images, 3 decimals": []}
    for api in load_apis(args.zoo)[: args.apis]:
        rows["exact"].append(measure(api))
        rows["8-bit images, 3 decimals"].append(measure(Rounded(Quantised(api), 3)))
        table = {"recovery": asdict(EFFICIENT), "endpoints": rows}
        args.out.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
