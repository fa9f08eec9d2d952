"""How the body of a student is stepped: filters turn, everything else moves."""

from typing import Any

import torch
from torch import Tensor

from dfml.nets.functional import Params
from dfml.runtime import Map

MOMENTUM = 0.9
ROUNDS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""of the odd polynomial that `evened` applies to singular values: steep at 0, and near 1 wherever it arrives"""


def evened(matrix: Tensor) -> Tensor:
    """`matrix` U S V^T with all its singular values brought near 1, to about U V^T.

    By Newton-Schulz rounds, which are products of matrices alone, as Muon does it (Jordan et al., 2024): a round takes
    X to P X with P = a + b X X^T + c (X X^T)^2. All rounds work on the small square matrix X X^T, which a round takes
    to P X X^T P, and X meets the product of all P once. In single precision: PyTorch's own Muon multiplies in bfloat16,
    which not every processor does.
    """
    a, b, c = COEFFICIENTS
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x: Tensor = wide / wide.norm().clamp_min(1e-12)
    square = x @ x.T
    product = torch.eye(len(x), dtype=x.dtype, device=x.device)
    for _ in range(ROUNDS):
        p = torch.addmm(square, square, square, beta=b, alpha=c)
        p.diagonal().add_(a)
        product, square = p @ product, p @ square @ p
    x = product @ x
    return x if wide is matrix else x.T


class Turning:
    """Filters (out, in, k, k), by name, of which each layer turns by an angle and keeps its length.

    Under BatchNorm the length of a layer's filters changes no answer, so that only their direction can be learned. A
    step turns a layer, seen as one vector, by about `angle` radians along the `evened` momentum of its gradient: what
    the gradient says softly, in small singular values, is learned as fast as what it says loudly.
    """

    def __init__(self, filters: Params, *, side_by_side: Map = map) -> None:
        self.filters, self.side_by_side = filters, side_by_side
        self.lengths = {name: p.detach().norm() for name, p in filters.items()}
        self.momentum = {
            name: torch.zeros_like(p, memory_format=torch.contiguous_format) for name, p in filters.items()
        }

    def step(self, gradient: Params, *, angle: float) -> None:
        """One step down the gradient, for the filters that have one; layers are shared out to cores."""

        @torch.no_grad()  # belongs to the thread
        def turn(name: str) -> None:
            grad, p, length = gradient[name], self.filters[name], self.lengths[name]
            momentum = self.momentum[name].mul_(MOMENTUM).add_(grad)
            towards = evened(momentum.mul(MOMENTUM).add_(grad).flatten(1)).view(p.shape)
            moved = p - towards * (angle * length / min(towards.flatten(1).shape) ** 0.5)
            p.copy_(moved * (length / moved.norm()))

        largest_first = sorted(gradient, key=lambda name: -gradient[name].numel())
        list(self.side_by_side(turn, largest_first))


class Descent:
    """Steps for all parameters of a body, whose size follows a one-cycle schedule with its peak at `lr`.

    Filters turn by at most `angle` radians a step; with an angle of 0, and for everything else, it is Adam.
    """

    def __init__(self, body: Params, *, lr: float, angle: float, steps: int, side_by_side: Map = map) -> None:
        self.body, self.peak, self.angle = body, lr, angle
        filters = {name: p for name, p in body.items() if angle and p.dim() == 4}
        self.turning = Turning(filters, side_by_side=side_by_side)
        self.rest = {name: p for name, p in body.items() if name not in self.turning.filters}
        self.adam = torch.optim.Adam(list(self.rest.values()), lr=lr, fused=True)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.adam, lr, total_steps=steps)

    @property
    def lr(self) -> float:
        """The rate of the next step."""
        return float(self.adam.param_groups[0]["lr"])

    @property
    def betas(self) -> tuple[float, float]:
        """Adam's, for the next step."""
        first, second = self.adam.param_groups[0]["betas"]
        return first, second

    def step(self, gradient: dict[str, Tensor | None]) -> None:
        """One step down the gradient; a parameter without one stays."""
        turned = {name: grad for name in self.turning.filters if (grad := gradient[name]) is not None}
        self.turning.step(turned, angle=self.angle * self.lr / self.peak)
        for name, p in self.rest.items():
            grad = gradient[name]  # of channels-last maps: in another order of memory, which fused Adam does not see
            p.grad = None if grad is None else grad.contiguous()
        self.adam.step()
        self.schedule.step()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything that `step` changes: tensors under names, and what else there is."""
        tensors = {f"value.{name}": p for name, p in self.body.items()}
        tensors |= {f"momentum.{name}": value for name, value in self.turning.momentum.items()}
        for name, p in self.rest.items():
            tensors |= {f"{key}.{name}": value for key, value in self.adam.state[p].items()}
        return tensors, {"groups": self.adam.state_dict()["param_groups"], "schedule": self.schedule.state_dict()}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        for name, p in self.body.items():
            p.copy_(tensors[f"value.{name}"])
        for name, value in self.turning.momentum.items():
            value.copy_(tensors[f"momentum.{name}"])
        moments: dict[int, dict[str, Tensor]] = {}
        for index, name in enumerate(self.rest):
            if f"step.{name}" in tensors:  # a bias that batch statistics cancel has no gradient and no moments
                moments[index] = {key: tensors[f"{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
        self.adam.load_state_dict({"state": moments, "param_groups": about["groups"]})
        self.schedule.load_state_dict(about["schedule"])
