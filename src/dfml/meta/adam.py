"""Adam as a function of an explicit state, so that a checkpoint is tensors and one number."""

from typing import NamedTuple

import torch

from dfml.nets.functional import Params


class AdamState(NamedTuple):
    """Running moments of the gradients, and how many have been seen."""

    first: Params
    second: Params
    steps: int

    @classmethod
    def fresh(cls, params: Params) -> "AdamState":
        """Before the first step."""
        return cls(
            {name: torch.zeros_like(p) for name, p in params.items()},
            {name: torch.zeros_like(p) for name, p in params.items()},
            0,
        )


@torch.no_grad()
def adam(
    params: Params,
    grads: Params,
    state: AdamState,
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
) -> tuple[Params, AdamState]:
    """One step; nothing is changed in place. The values are bit for bit those of `torch.optim.Adam`."""
    steps = state.steps + 1
    first = {name: m.lerp(grads[name], 1 - betas[0]) for name, m in state.first.items()}
    second = {
        name: (v * betas[1]).addcmul_(grads[name], grads[name], value=1 - betas[1]) for name, v in state.second.items()
    }
    step_size, correction = lr / (1 - betas[0] ** steps), (1 - betas[1] ** steps) ** 0.5
    moved = {
        name: p.detach().addcdiv(first[name], (second[name].sqrt() / correction).add_(eps), value=-step_size)
        for name, p in params.items()
    }
    return moved, AdamState(first, second, steps)
