"""Noise with the spectrum of natural images, drawn once as a sheet and cut up many times."""

import torch
from torch import Generator, Tensor

from dfml.images.colours import opponent


def noise(count: int, size: int, *, low: float, high: float, rng: Generator, planes: int = 1) -> Tensor:
    """Noise (count, planes, size, size) of zero mean and unit variance whose amplitude falls as 1 / frequency**a.

    The exponents rise evenly over the images from `low` (grain) to `high` (clouds).
    """
    fy, fx = torch.fft.fftfreq(size).view(-1, 1), torch.fft.rfftfreq(size).view(1, -1)
    frequency = (fy.square() + fx.square()).sqrt().clamp_min(1 / size)
    exponent = torch.linspace(low, high, count).view(-1, 1, 1, 1)
    shape = (count, planes, size, size // 2 + 1)
    waves = torch.complex(torch.randn(shape, generator=rng), torch.randn(shape, generator=rng))
    x: Tensor = torch.fft.irfft2(waves * frequency**-exponent, s=(size, size))
    x = x - x.mean((-2, -1), keepdim=True)
    return x / x.std((-2, -1), keepdim=True).clamp_min(1e-6)


class Textures:
    """A store of noise from which windows are cut: one Fourier transform serves many surfaces."""

    def __init__(self, size: int, *, rng: Generator, sheets: int = 48) -> None:
        self.rng = rng
        self.low, self.high = 0.7, 3.2
        self.span = size + 1
        sheet = noise(sheets, 2 * size, low=self.low, high=self.high, rng=rng)[:, 0]
        self.windows = sheet.unfold(1, size, 1).unfold(2, size, 1)  # a view: (sheets, span, span, size, size)

    def cut(self, count: int, *, low: float, high: float) -> Tensor:
        """Windows (count, size, size) of noise whose exponents lie between `low` and `high`."""
        sheets = len(self.windows)
        first, last = (int((e - self.low) / (self.high - self.low) * (sheets - 1)) for e in (low, high))
        which = torch.randint(first, last + 1, (count,), generator=self.rng)
        y, x = torch.randint(self.span, (2, count), generator=self.rng)
        return self.windows[which, y, x]


def pink(count: int, size: int, *, rng: Generator) -> Tensor:
    """Coloured 1/f noise (count, 3, size, size) in [0, 1], from grain to clouds, mostly grey as the world is."""

    def draw(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(count, *shape, generator=rng) * (high - low) + low

    waves = noise(count, size, low=0.5, high=3.0, rng=rng, planes=3)
    waves = waves * torch.cat([draw(1, 1, 1, 1, 1), draw(0, 0.6, 2, 1, 1)], 1)
    x = opponent(waves)
    x = x / x.flatten(1).std(1).view(-1, 1, 1, 1)
    return (x * draw(0.08, 0.33, 1, 1, 1) + draw(0.25, 0.75, 1, 1, 1) + draw(-0.12, 0.12, 3, 1, 1)).clamp_(0, 1)
