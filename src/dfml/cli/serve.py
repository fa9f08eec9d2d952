"""`dfml serve ZOO|CLF`: a zoo or a classifier behind HTTP, as good or as bad an endpoint as you like."""

import argparse
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfml.apis.blackbox import BlackBox


def add(verbs: Any) -> None:
    serve = verbs.add_parser("serve", help="put a zoo or a classifier behind HTTP: V2, TF Serving, Hugging Face")
    serve.add_argument("apis", type=Path, metavar="ZOO", help="a zoo folder, an apis.toml or a classifier's folder")
    serve.add_argument("--ask", metavar="SHARE", help="a live classifier: queries an image, or auto; see dfml predict")
    serve.add_argument("--budget", type=int, metavar="QUERIES", help="a live classifier: that it may cost in all")
    serve.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen at (default: this machine only)")
    serve.add_argument("--latency-ms", type=float, default=0.0, help="added to every prediction")
    serve.add_argument("--rate-limit", type=float, metavar="N", help="requests a second and API; more get 429")
    serve.add_argument("--max-batch", type=int, metavar="N", help="images a request; more get 413")
    serve.add_argument(
        "--bits", type=int, metavar="N", help="images lose what N bits a channel cannot hold, as in files"
    )
    serve.add_argument("--decimals", type=int, metavar="N", help="scores are rounded")
    serve.add_argument("--top-k", type=int, metavar="K", help="only the K best scores are given")
    serve.add_argument("--label-only", action="store_true", help="only the winner is given")
    serve.add_argument(
        "--fail-rate", type=float, default=0.0, metavar="P", help="the fraction of predictions that fail"
    )
    serve.add_argument(
        "--fail-with",
        nargs="+",
        metavar="KIND",
        help="429, 500, 503, reset, timeout, truncated, malformed (default: all of them)",
    )
    serve.add_argument("--fail-api", nargs="+", default=(), metavar="NAME", help="only these fail (default: all)")
    serve.add_argument("--fail-seed", type=int, default=0)
    serve.add_argument("--hang-ms", type=float, default=30_000, help="how long a timeout keeps its client waiting")
    serve.set_defaults(run=run, computes=True)


def run(args: argparse.Namespace) -> None:
    import torch

    from dfml.serving.faults import KINDS, FaultConfig
    from dfml.serving.hosted import Hosted, ServeConfig
    from dfml.serving.http import Server

    torch.set_num_threads(1)  # requests run side by side; each needs one
    faults = FaultConfig(
        rate=args.fail_rate,
        kinds=tuple(args.fail_with or KINDS),
        apis=tuple(args.fail_api),
        hang_s=args.hang_ms / 1000,
        seed=args.fail_seed,
    )
    config = ServeConfig(
        latency_s=args.latency_ms / 1000,
        rate_limit=args.rate_limit,
        max_batch=args.max_batch,
        bits=args.bits,
        decimals=args.decimals,
        top_k=args.top_k,
        label_only=args.label_only,
        faults=faults,
    )
    zoo = Hosted(_apis(args), config)
    with Server(zoo, args.host, args.port) as server:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a service manager's way of pressing Ctrl-C
        print(f"serving {len(zoo.apis)} APIs at {server.url}; Ctrl-C ends", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print(f"answered {zoo.stats.to_json()['answered']:,} images", flush=True)


def _apis(args: argparse.Namespace) -> "Sequence[BlackBox]":
    """The APIs of a manifest, or a classifier as one."""
    from dfml.apis.loading import load_apis

    if not (args.apis / "classifier.safetensors").exists():
        return load_apis(args.apis)
    from dfml.adaptation.classifier import FewShotClassifier
    from dfml.adaptation.served import classifier_api
    from dfml.cli.options import asked_share

    classifier = FewShotClassifier.load(args.apis, ask=asked_share(args.ask), budget=args.budget)
    return [classifier_api(classifier, args.apis.resolve().name)]
