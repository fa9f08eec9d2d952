"""Networks as pure functions of their parameters: the form that inner loops and meta-gradients need.

The values are those of the modules in `conv4` and `resnet` with `batch_norm="batch"`. Two identities make them cheap:

- Max-pooling and ReLU commute with an increasing function, so a block computes its batch statistics on the whole map
  but normalises only the quarter of it that survives pooling. Where BatchNorm's weight g is negative the function
  falls; there the signs of g and of the filter are both flipped, which changes nothing: BatchNorm is odd.
- BatchNorm with batch statistics cancels any bias of the convolution before it, so the bias is never added, and its
  gradient is exactly zero rather than rounding noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from dfml.hardware import autocast
from dfml.nets import NetSpec
from dfml.nets.primitives import EPSILON, conv2d, norm_pool_relu

Params = dict[str, Tensor]
"""name -> tensor, with the names of the module's `named_parameters`"""

MEAN, STD = 0.5, 0.25
"""The input contract of every meta model: pixels in [0, 1] enter as (x - MEAN) / STD, because a world without data has
no data-set statistics to normalise by."""


class Net:
    """`net(params, images)`: images (n, channels, size, size) in [0, 1] -> logits (n, way).

    Every batch is normalised by its own statistics. Nothing is mutated, so threads may share one `Net`. The head may
    have another way than `spec` if `params` say so. With `mixed`, convolutions are done in bfloat16.
    """

    def __init__(self, spec: NetSpec, *, mixed: bool = False) -> None:
        self.spec, self.mixed = spec, mixed
        self._maps: Callable[[Params, Tensor], list[Tensor]] = _resnet if spec.residual else _conv4

    def init(self, rng: Generator, *, device: torch.device | str = "cpu") -> Params:
        """Fresh parameters, the same as those of `spec.build(rng=rng)`, moved to `device`."""
        fresh = self.spec.build(rng=rng, batch_norm="batch").named_parameters()
        return {name: p.detach().to(device) for name, p in fresh}

    @property
    def shapes(self) -> dict[str, torch.Size]:
        """The shape of every parameter, by name."""
        with torch.device("meta"):  # no memory, no numbers
            return {name: p.shape for name, p in self.spec.outline(batch_norm="batch").named_parameters()}

    def __call__(self, params: Params, images: Tensor) -> Tensor:
        """The logits (n, way)."""
        return self.features(params, images) @ params["head.weight"].T + params["head.bias"]

    def features(self, params: Params, images: Tensor) -> Tensor:
        """What the last layer reads: (n, last width * (size // 16)**2) for Conv4, (n, 8 * width) for ResNets."""
        return features_of(self.spec, self.maps(params, images)[-1])

    def maps(self, params: Params, images: Tensor) -> list[Tensor]:
        """What comes out of each block of a Conv4, of each stage of a ResNet: (n, width, h, w)."""
        x = normalise(images).contiguous(memory_format=self.spec.memory_format)
        with autocast(x.device, mixed=self.mixed):
            return self._maps(params, x)


def head_for(net: Net, params: Params, way: int) -> tuple[Net, Params]:
    """The network as it is, or for another number of classes the same body under a fresh, empty head."""
    if way == net.spec.way:
        return net, params
    ours = params["head.weight"]
    head = {"head.weight": ours.new_zeros(way, ours.shape[1]), "head.bias": ours.new_zeros(way)}
    return Net(replace(net.spec, way=way), mixed=net.mixed), {**params, **head}


def average(networks: Sequence[Params]) -> Params:
    """The mean of every weight over networks of one shape."""
    return {name: torch.stack([net[name] for net in networks]).mean(0) for name in networks[0]}


def normalise(images: Tensor) -> Tensor:
    """Pixels in [0, 1] -> what the first layer sees."""
    return (images - MEAN) / STD


def features_of(spec: NetSpec, last: Tensor) -> Tensor:
    """What the last layer reads of the last maps (n, width, h, w)."""
    return last.mean((-2, -1)) if spec.residual else last.flatten(1)


def _conv4(params: Params, x: Tensor) -> list[Tensor]:
    maps = []
    for block in range(4):
        x = _conv_block(params, f"blocks.{block}.", x)
        maps.append(x)
    return maps


def _conv_block(params: Params, prefix: str, x: Tensor) -> Tensor:
    weight, gain = params[prefix + "conv.weight"], params[prefix + "norm.weight"]
    # On a CPU it pays to look; to look at a number on a GPU is to wait until all work before it is done.
    if gain.device.type != "cpu" or bool((gain < 0).any()):
        sign = torch.where(gain < 0, -1.0, 1.0).to(gain.dtype)
        weight, gain = weight * sign[:, None, None, None], gain * sign
    return norm_pool_relu(conv2d(x, weight, padding=1), gain, params[prefix + "norm.bias"])


def _resnet(params: Params, x: Tensor) -> list[Tensor]:
    x = _norm(params, "stem_norm.", conv2d(x, params["stem.weight"], padding=1)).relu()
    maps: list[Tensor] = []
    block = 0
    while (prefix := f"stages.{block}.") + "conv1.weight" in params:
        x = _basic_block(params, prefix, x)
        if maps and maps[-1].shape == x.shape:
            maps[-1] = x  # one more block of the same stage
        else:
            maps.append(x)
        block += 1
    return maps


def _basic_block(params: Params, prefix: str, x: Tensor) -> Tensor:
    first = params[prefix + "conv1.weight"]
    # The first block of a later stage doubles the width and halves the map; no other does either.
    stride = 1 if first.shape[0] == first.shape[1] else 2
    y = _norm(params, prefix + "norm1.", conv2d(x, first, stride=stride, padding=1)).relu()
    y = _norm(params, prefix + "norm2.", conv2d(y, params[prefix + "conv2.weight"], padding=1))
    if prefix + "shortcut.0.weight" in params:
        x = _norm(params, prefix + "shortcut.1.", conv2d(x, params[prefix + "shortcut.0.weight"], stride=stride))
    return (y + x).relu()


def _norm(params: Params, prefix: str, y: Tensor) -> Tensor:
    return F.batch_norm(y, None, None, params[prefix + "weight"], params[prefix + "bias"], training=True, eps=EPSILON)
