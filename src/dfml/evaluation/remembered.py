"""Answers of this process in memory: tasks share most of their images."""

import hashlib

import torch
from torch import Tensor

from dfml.apis.blackbox import BlackBox
from dfml.apis.ledger import Ledger, Metered

CALL = 64 * 2**20
"""bytes of images that one call carries"""


class Remembered(Metered):
    """An API behind its ledger that looks up each image once.

    It takes images of any size, known by their own pixels: to enlarge one for the ledger takes longer than to judge it.
    """

    def __init__(self, api: BlackBox, ledger: Ledger) -> None:
        super().__init__(api, ledger)
        self._answers: dict[bytes, Tensor] = {}

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        keys = [hashlib.blake2b(image.numpy().tobytes(), digest_size=16).digest() for image in images.contiguous()]
        new = list({key: row for row, key in enumerate(keys) if key not in self._answers}.values())
        channels, height, width = self.spec.image
        for rows in torch.tensor(new, dtype=torch.long).split(max(1, CALL // (4 * channels * height * width))):
            for row, answer in zip(rows.tolist(), super().__call__(images[rows]), strict=True):
                self._answers[keys[row]] = answer
        return torch.stack([self._answers[key] for key in keys])
