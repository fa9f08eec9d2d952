"""What a student expects its teachers to answer: features that mean something."""

from typing import Self

import torch
from torch import Tensor, nn


class Voices(nn.Module):
    """The heads that a student was distilled with, one linear layer an API, as an embedding of its features.

        voices(features) = softmax over each API's classes(weight features + bias) - mean

    `mean` is the answer expected over the images of learning, so that what all images have in common does not count.
    A class that an API does not have carries a bias so low that its answer is zero.
    """

    TENSORS = ("weight", "bias", "mean")
    weight: Tensor  # (m * k, d)
    bias: Tensor  # (m * k,)
    mean: Tensor  # (m, k)

    def __init__(self, weight: Tensor, bias: Tensor, mean: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        self.register_buffer("mean", mean)

    def forward(self, features: Tensor) -> Tensor:
        """Features (n, d) of the student -> (n, m * k)."""
        return (self.answers(features) - self.mean).flatten(1)

    def answers(self, features: Tensor) -> Tensor:
        """The probabilities (n, m, k) that each API is expected to give."""
        logits = features @ self.weight.T + self.bias
        return logits.view(-1, *self.mean.shape).softmax(-1)

    @classmethod
    def heard(cls, weight: Tensor, bias: Tensor, features: Tensor, *, apis: int) -> Self:
        """The heads of `apis` APIs, centred on the answers expected for `features` (n, d)."""
        voices = cls(weight, bias, torch.zeros(apis, len(bias) // apis))
        voices.mean.copy_(voices.answers(features).mean(0))
        return voices
