"""The learner between two iterations: everything a resumed run needs besides what is on disk already."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dfml.files import load_tensors, save_tensors
from dfml.meta.adam import AdamState, adam
from dfml.nets.functional import Params

KIND, VERSION = "checkpoint", 1


@dataclass
class LearnerState:
    """Theta, its optimiser, and the notes a method keeps beside them."""

    params: Params
    adam: AdamState
    iteration: int
    """iterations completed"""
    notes: dict[str, Any]
    """JSON-able"""

    @classmethod
    def fresh(cls, params: Params, notes: dict[str, Any]) -> "LearnerState":
        return cls(params, AdamState.fresh(params), 0, notes)

    def step(self, grads: Params, *, lr: float, steps: int) -> None:
        """One step of Adam on those parameters alone that have `grads`, and have had so many `steps` before."""
        before = AdamState(
            {name: self.adam.first[name] for name in grads}, {name: self.adam.second[name] for name in grads}, steps
        )
        moved, after = adam({name: self.params[name] for name in grads}, grads, before, lr=lr)
        self.params = self.params | moved
        self.adam = AdamState(self.adam.first | after.first, self.adam.second | after.second, self.adam.steps)

    def save(self, path: Path) -> None:
        tensors: dict[str, Tensor] = {}
        for group, params in (("params", self.params), ("first", self.adam.first), ("second", self.adam.second)):
            tensors |= {f"{group}.{name}": tensor for name, tensor in params.items()}
        about = {"iteration": self.iteration, "steps": self.adam.steps, "notes": self.notes}
        save_tensors(path, tensors, kind=KIND, version=VERSION, about=about)

    @classmethod
    def load(cls, path: Path, *, device: torch.device | str = "cpu") -> "LearnerState":
        tensors, about = load_tensors(path, kind=KIND, version=VERSION)
        groups: dict[str, Params] = {"params": {}, "first": {}, "second": {}}
        for name, tensor in tensors.items():
            group, _, rest = name.partition(".")
            groups[group][rest] = tensor.to(device)
        adam = AdamState(groups["first"], groups["second"], about["steps"])
        return cls(groups["params"], adam, about["iteration"], about["notes"])
