"""What a network sees of an image: its last features, and what earlier layers noticed."""

from collections.abc import Mapping, Sequence
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dfml.nets import NetSpec
from dfml.nets.functional import features_of

WEIGHTS, POWERS = (1.0, 0.5, 0.25), (0.15, 0.5, 0.5)
"""of features, quadrants and means (`looks`): how much they count, and how far they are evened"""
FLOOR = 0.3
"""mean variances that are added to each: what hardly varies is not to become loud"""
DIRECTIONS = 256
"""along which a look is evened, at most"""


def looks(spec: NetSpec, maps: Sequence[Tensor]) -> list[Tensor]:
    """Three ways to look at the maps of a network's blocks, coarse to fine in meaning: (n, d) each.

    The features that the last layer reads, the quadrants of the block before the last, the means of the one before.
    """
    *_, early, late, last = maps
    side = int(late.shape[-1])  # a constant, also where the exporter to ONNX hands out tensors for sizes
    quadrants = F.avg_pool2d(late, (side + 1) // 2, side // 2)  # of an odd side they share the middle
    return [features_of(spec, last), quadrants.flatten(1), early.mean((-2, -1))]


class Evened(nn.Module):
    """Vectors x (n, d) less their mean over images of learning, and quieter along what varies most among these:

        sum_i ((v_i + f) / f) ** -power  u_i u_i^T (x - mean),    f = FLOOR * mean variance

    over the principal directions u_i of variance v_i. A power of 1/2 would even all that varies more than f.
    """

    mean: Tensor  # (d,)
    across: Tensor  # (k, d): u_i
    quieter: Tensor  # (k,): by how much less than all of it stays

    def __init__(self, mean: Tensor, across: Tensor, quieter: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("across", across)
        self.register_buffer("quieter", quieter)

    @classmethod
    def among(cls, x: Tensor, *, power: float) -> Self:
        """Measured on the vectors x (n, d)."""
        mean = x.mean(0)
        apart = (x - mean).double()
        # The directions, by the smaller of two square matrices that share their eigenvalues.
        wide = len(apart) < apart.shape[1]
        squares, turned = torch.linalg.eigh(apart @ apart.T if wide else apart.T @ apart)
        most = slice(-min(DIRECTIONS, len(squares)), None)
        variances = squares.clamp_min(0) / len(x)
        across = F.normalize(turned.T[most] @ apart, dim=1) if wide else turned.T[most]
        floor = (FLOOR * apart.square().mean()).clamp_min(1e-12)
        kept = ((variances[most] + floor) / floor) ** -power
        return cls(mean, across.to(x.dtype), (1 - kept).to(x.dtype))

    def forward(self, x: Tensor) -> Tensor:
        apart = x - self.mean
        return apart - (apart @ self.across.T * self.quieter) @ self.across


class Sight(nn.Module):
    """Looks as one vector: each `Evened`, of unit length, times its weight."""

    weights: Tensor

    def __init__(self, parts: Sequence[Evened], weights: Tensor) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.register_buffer("weights", weights)

    @classmethod
    def among(cls, seen: Sequence[Tensor], *, beside: float) -> Self:
        """Measured on what was `seen` of images, for use beside something else that weighs `beside`.

        What outweighs the features says the same as their loudest directions. Then these are evened more, and what
        other layers noticed counts more.
        """
        more = max(1.0, beside)
        powers, weights = (POWERS[0] * more, *POWERS[1:]), (WEIGHTS[0], *(more * weight for weight in WEIGHTS[1:]))
        parts = [Evened.among(look, power=power) for look, power in zip(seen, powers, strict=True)]
        return cls(parts, torch.tensor(weights).to(seen[0].device))

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Self:
        """From what `state_dict` gave."""
        names, count = ("mean", "across", "quieter"), len(state["weights"])
        parts = [Evened(**{name: state[f"parts.{part}.{name}"] for name in names}) for part in range(count)]
        return cls(parts, state["weights"])

    def forward(self, seen: Sequence[Tensor]) -> Tensor:
        """Looks (n, d_i) -> (n, the sum of d_i)."""
        parts = zip(self.weights.unbind(), self.parts, seen, strict=True)
        return torch.cat([weight * F.normalize(evened(look), dim=1) for weight, evened, look in parts], 1)
