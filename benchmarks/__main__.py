"""`python -m benchmarks [--out FILE] [NAME...]`: every benchmark, or those named; each a ratio measured in one run."""

import argparse
import importlib
import json
import platform
from pathlib import Path

NAMES = (
    "zoo_training",
    "onnx_api",
    "stack",
    "ledger",
    "recovery_step",
    "meta_step",
    "evaluation",
    "prototype",
    "prior",
    "server",
    "distilling",
    "growth",
    "ray_scaling",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    results = json.loads(args.out.read_text())["benchmarks"] if args.out and args.out.exists() else {}
    for name in args.names:
        result = importlib.import_module(f"benchmarks.{name}").run()
        results[name] = result
        print(f"{'' if result['met'] else 'short: '}{result['line']}", flush=True)
        if args.out:
            table = {"python": platform.python_version(), "benchmarks": results}
            args.out.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
