"""The paper's image generator (tab:sturcture_of_generator)."""

import math

from torch import Generator as Rng
from torch import Tensor, nn

from dfml.errors import ConfigError


class Generator(nn.Module):
    """Latent vectors (n, latent) -> images (n, channels, size, size) in (0, 1)."""

    def __init__(self, *, rng: Rng, size: int = 32, channels: int = 3, filters: int = 64, latent: int = 256) -> None:
        super().__init__()
        if size % 4:
            raise ConfigError(f"the generator doubles its maps twice, so the image size must divide by 4, not {size}")
        self.latent, self.start = latent, (2 * filters, size // 4, size // 4)
        self.project = nn.Linear(latent, 2 * filters * (size // 4) ** 2)
        self.paint = nn.Sequential(
            nn.BatchNorm2d(2 * filters),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * filters, 2 * filters, 3, padding=1),
            nn.BatchNorm2d(2 * filters),
            nn.LeakyReLU(0.2),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * filters, filters, 3, padding=1),
            nn.BatchNorm2d(filters),
            nn.LeakyReLU(0.2),
            nn.Conv2d(filters, channels, 3, padding=1),
            nn.Sigmoid(),
        )
        for layer in (self.project, *self.paint):
            if isinstance(layer, nn.Linear | nn.Conv2d):
                # PyTorch's own default, from a stream of ours. The He start of the classifiers would be too wide
                # here: the last layer has 3 outputs, and the sigmoid behind it would begin saturated.
                bound = 1.0 / math.sqrt(layer.weight[0].numel())
                nn.init.uniform_(layer.weight, -bound, bound, generator=rng)
                nn.init.uniform_(layer.bias, -bound, bound, generator=rng)  # type: ignore[arg-type]

    def forward(self, z: Tensor) -> Tensor:
        images: Tensor = self.paint(self.project(z).unflatten(1, self.start))
        return images
