"""Why does the paper report 20 % for an untrained network? Variants of its meta-test, one after another.

    python -m benchmarks.random_baseline CIFAR_FS --tasks 60 --out FILE

Each variant is the published protocol (10 steps of gradient descent, rate 0.01) with one thing changed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from dfml.episode import Episode
from dfml.evaluation.accuracy import summarise
from dfml.evaluation.metatest import TaskProtocol, draw_tasks
from dfml.nets import NetSpec
from dfml.nets.functional import normalise
from dfml.rng import stream


def accuracy(
    net: nn.Module,
    episode: Episode,
    *,
    steps: int = 10,
    lr: float = 0.01,
    head_only: bool = False,
    empty_head: bool = False,
    statistics: str = "batch",
) -> float:
    """Fine-tune a copy of `net` on the support set; the fraction of queries that it then names right.

    `statistics` of BatchNorm: "batch" (of whatever goes through), "initial" (mean 0, variance 1: evaluation mode of a
    network that was never trained), "tracked" (the running mean over the fine-tuning steps, used for the queries).
    """
    params = {name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()}
    buffers = {name: b.clone() for name, b in net.named_buffers()}
    if empty_head:
        params |= {name: torch.zeros_like(p).requires_grad_() for name, p in params.items() if name.startswith("head")}

    def forward(images: Tensor, *, train: bool) -> Tensor:
        net.train(train)
        return functional_call(net, (params, buffers), normalise(images))

    for _ in range(steps):
        loss = F.cross_entropy(forward(episode.support, train=statistics != "initial"), episode.support_labels)
        names = [name for name in params if not head_only or name.startswith("head")]
        grads = torch.autograd.grad(loss, [params[name] for name in names])
        moved = {name: params[name] - lr * grad for name, grad in zip(names, grads, strict=True)}
        params |= {name: p.detach().requires_grad_() for name, p in moved.items()}
    with torch.no_grad():
        answers = forward(episode.query, train=statistics == "batch").argmax(1)
    return (answers == episode.query_labels).float().mean().item()


VARIANTS: dict[str, dict[str, Any]] = {
    "the published protocol": {},
    "weights as PyTorch draws them": {"torch_init": True},
    "the head begins at zero": {"empty_head": True},
    "only the head learns": {"head_only": True},
    "one step": {"steps": 1},
    "rate 0.001": {"lr": 0.001},
    "no adaptation": {"steps": 0},
    "BatchNorm in evaluation mode, never trained": {"statistics": "initial"},
    "the same, weights as PyTorch draws them": {"statistics": "initial", "torch_init": True},
    "running statistics of 10 steps": {"statistics": "tracked"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, metavar="CIFAR_FS")
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    spec = NetSpec(way=5)
    ours = spec.build(rng=stream(0, "meta-model"))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = spec.outline()
    rows = []
    for title, changes in VARIANTS.items():
        settings = dict(changes)
        net = theirs if settings.pop("torch_init", False) else ours
        row: dict[str, Any] = {"variant": title}
        for shot in (1, 5):
            protocol = TaskProtocol(dataset="cifar-fs", part="val", shot=shot)
            tasks = draw_tasks(protocol, range(args.tasks), data=args.data)
            result = summarise([accuracy(net, episode, **settings) for episode in tasks])
            row[f"{shot}-shot"] = {"mean": round(result.mean, 2), "ci95": round(result.ci95, 2)}
        rows.append(row | {"tasks": args.tasks, "part": "val"})
        print(f"{title:50s} {row['1-shot']['mean']:6.2f} ± {row['1-shot']['ci95']:.2f}", end="")
        print(f"  {row['5-shot']['mean']:6.2f} ± {row['5-shot']['ci95']:.2f}", flush=True)
        if args.out:
            args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
