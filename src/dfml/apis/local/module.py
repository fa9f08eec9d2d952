"""A torch module behind the seam."""

from typing import Literal

import torch
from torch import Tensor, nn

from dfml.apis.blackbox import ApiSpec, ask, prepare
from dfml.nets.export import Channels, EndToEnd


class ModuleApi:
    """A torch module that returns logits, as an `OpenBox`. It is copied, so later changes to it do not show."""

    answers_are_checked: Literal[True] = True

    def __init__(
        self,
        module: nn.Module,
        spec: ApiSpec,
        *,
        mean: Channels = None,
        std: Channels = None,
        batch: int = 256,
    ) -> None:
        self.spec, self.batch = spec, batch
        self._net = EndToEnd(module, spec.image[0], mean, std, name=spec.name)
        self._device = next(module.parameters(), torch.empty(0)).device
        self._net.to(self._device)

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        return ask(self.spec, images, self._respond)

    @property
    def network(self) -> EndToEnd:
        """From pixels to probabilities; not to be changed."""
        return self._net

    def differentiable(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) with the autograd graph back to `images`."""
        probs: Tensor = self._net(prepare(self.spec, images).to(self._device))
        return probs.to(images.device)

    def _respond(self, images: Tensor) -> Tensor:
        with torch.inference_mode():
            parts = [self._net(part.to(self._device)) for part in torch.split(images, self.batch)]
        return torch.cat(parts)  # outside inference mode, so that autograd may use the answers as targets
