"""What a student sees and what it expects its teachers to answer: features that mean something."""

from collections.abc import Sequence
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ExpectedAnswers(nn.Module):
    """The heads that a student was distilled with, one linear layer an API, as an embedding of its features f:

        expected(f) = [ (f - centre) / |f - centre|,  r (a - mean) / |a - mean| ],   a = softmax(weight f + bias)

    where the softmax is over each API's classes. `centre` and `mean` are f and a averaged over the images of learning,
    so that what all images have in common does not count. A class that an API lacks has a bias so low that a is zero.

    Both halves are needed: the answers of a hundred APIs say more than the features, those of ten say less. So r^2 is
    the number of answers that are free (one less than an API has classes) divided by the number of features.
    """

    TENSORS = ("weight", "bias", "centre", "mean")
    weight: Tensor  # (m * k, d)
    bias: Tensor  # (m * k,)
    centre: Tensor  # (d,)
    mean: Tensor  # (m, k)

    def __init__(self, weight: Tensor, bias: Tensor, centre: Tensor, mean: Tensor) -> None:
        super().__init__()
        for name, tensor in zip(self.TENSORS, (weight, bias, centre, mean), strict=True):
            self.register_buffer(name, tensor)
        free = int((mean > 0).sum()) - len(mean)
        self.answer_weight = (free / len(centre)) ** 0.5  # r

    def on(self, device: torch.device | str) -> Self:
        """The same there; unlike `to`, which would move these."""
        return type(self)(*(getattr(self, name).to(device) for name in self.TENSORS))

    def forward(self, features: Tensor) -> Tensor:
        """Features (n, d) of the student -> (n, d + m * k)."""
        answers = (self.answers(features) - self.mean).flatten(1)
        halves = F.normalize(features - self.centre, dim=1), self.answer_weight * F.normalize(answers, dim=1)
        return torch.cat(halves, 1)

    def answers(self, features: Tensor) -> Tensor:
        """The probabilities (n, m, k) that each API is expected to give."""
        return _answers(features, self.weight, self.bias, self.mean.shape)

    @classmethod
    def centred_on(cls, weight: Tensor, bias: Tensor, features: Tensor, *, apis: int) -> Self:
        """The heads of `apis` APIs, centred on `features` (n, d) and the answers expected for them."""
        answers = _answers(features, weight, bias, (apis, len(bias) // apis))
        return cls(weight, bias, features.mean(0), answers.mean(0))


def _answers(features: Tensor, weight: Tensor, bias: Tensor, shape: Sequence[int]) -> Tensor:
    return (features @ weight.T + bias).view(-1, *shape).softmax(-1)
