"""The last layers of a student, one for each API, of which an update touches only those it listens to."""

import torch
from torch import Generator, Tensor

from dfml.nets.expected_answers import NOWHERE
from dfml.nets.functional import Params

EPSILON = 1e-8  # of torch.optim.Adam


class AnswerHeads:
    """A linear layer on d features for each of m APIs of at most k classes, trained by Adam.

    Every layer has moments and a number of updates of its own, so that an update costs as much as there are APIs in it,
    however many there are besides. Where all are in every update, this is Adam as it always is.
    """

    def __init__(self, ways: Tensor, *, way: int, features: int, rng: Generator) -> None:
        apis, device = len(ways), ways.device
        weight = (torch.rand(apis, way, features, generator=rng) * 2 - 1) * features**-0.5
        self.values: Params = {"weight": weight.to(device), "bias": torch.zeros(apis, way, device=device)}
        self.first, self.second = ({name: torch.zeros_like(v) for name, v in self.values.items()} for _ in range(2))
        self.updates = torch.zeros(apis, dtype=torch.long, device=device)
        self.present = torch.arange(way, device=device) < ways[:, None]
        self.absent = torch.where(self.present, 0.0, NOWHERE)

    def of(self, apis: Tensor) -> Params:
        """Copies of the layers of some APIs, to compute a gradient for."""
        return {name: value[apis].requires_grad_() for name, value in self.values.items()}

    def logits(self, features: Tensor, layers: Params, apis: Tensor) -> Tensor:
        """What `layers`, those of `apis`, make of features (n, d): (n, apis, k)."""
        flat = features @ layers["weight"].flatten(0, 1).T + layers["bias"].flatten()
        return flat.view(len(features), *layers["bias"].shape) + self.absent[apis]

    @torch.no_grad()
    def update(self, apis: Tensor, gradient: Params, *, lr: float, betas: tuple[float, float]) -> None:
        """One step of Adam for the layers of `apis`."""
        self.updates[apis] += 1
        count = self.updates[apis].double()
        rate, correction = lr / (1 - betas[0] ** count), (1 - betas[1] ** count).sqrt()
        for name, grad in gradient.items():
            each = (-1, *[1] * (grad.dim() - 1))
            first = self.first[name][apis].lerp(grad, 1 - betas[0])
            second = (self.second[name][apis] * betas[1]).addcmul_(grad, grad, value=1 - betas[1])
            spread = (second.sqrt() / correction.to(grad.dtype).view(each)).add_(EPSILON)
            self.values[name][apis] -= rate.to(grad.dtype).view(each) * first / spread
            self.first[name][apis], self.second[name][apis] = first, second

    def state(self) -> dict[str, Tensor]:
        """Everything that `update` changes, under names."""
        parts = {"value": self.values, "first": self.first, "second": self.second}
        named = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
        return named | {"updates": self.updates}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""
        for name, value in self.state().items():
            value.copy_(state[name])
