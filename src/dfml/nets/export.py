"""A network as an endpoint computes it, from pixels to probabilities, and the same as a file that needs no torch."""

import copy
import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from dfml.errors import ConfigError

Channels = Sequence[float] | Tensor | None
"""one number a channel; None leaves the images as they are"""


class EndToEnd(nn.Module):
    """What an endpoint computes: images (n, c, h, w) in [0, 1] -> softmax(net((images - mean) / std)), (n, k)."""

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module, channels: int, mean: Channels, std: Channels, *, name: str) -> None:
        super().__init__()
        shift = [0.0] * channels if mean is None else [float(value) for value in mean]
        scale = [1.0] * channels if std is None else [float(value) for value in std]
        if len(shift) != channels or len(scale) != channels or min(scale) <= 0:
            raise ConfigError(
                f"{name}: mean and std take {channels} numbers, one a channel, std above 0: not {shift}, {scale}"
            )
        self.net = copy.deepcopy(net)  # training the caller's module further must not change our answers
        self.register_buffer("mean", torch.tensor(shift).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(scale).view(1, -1, 1, 1))
        self.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.net((images - self.mean) / self.std)
        return logits.softmax(1)


def export_onnx(
    module: nn.Module,
    path: str | Path,
    *,
    name: str,
    classes: Sequence[str],
    image: tuple[int, int, int],
    mean: Channels = None,
    std: Channels = None,
) -> None:
    """Write `module` as a self-contained ONNX file, whole or not at all.

    One float32 input `images` (n, c, h, w) in [0, 1] with a free batch dimension, normalisation and softmax inside,
    one output `probabilities` (n, k). The file also carries `name` and class names.
    """
    try:
        import onnx
    except ImportError as error:
        raise ConfigError("writing ONNX files needs the package onnx; run pip install 'dfml[onnx]'") from error
    path = Path(path)
    part = path.with_name(path.name + ".part")
    net = EndToEnd(module, image[0], mean, std, name=name).cpu()
    with warnings.catch_warnings():
        # The exporter through TorchScript warns that it is the old one. The new one (dynamo=True) takes 4 s a model
        # instead of 0.2 s, needs onnxscript besides, and writes the same network.
        warnings.simplefilter("ignore", DeprecationWarning)
        # It also warns of Python numbers that are computed from sizes: all are constant but the number of images.
        warnings.filterwarnings("ignore", "Converting a tensor to a Python integer")
        torch.onnx.export(
            net,
            (torch.full((2, *image), 0.5),),
            str(part),
            dynamo=False,
            input_names=["images"],
            output_names=["probabilities"],
            dynamic_axes={"images": {0: "n"}, "probabilities": {0: "n"}},
        )
    model = onnx.load(part)
    onnx.helper.set_model_props(model, {"name": name, "classes": json.dumps(classes)})
    onnx.save(model, part)
    os.replace(part, path)
