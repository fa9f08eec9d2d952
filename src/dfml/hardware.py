"""Where to compute and how exactly: what `--device` and `--precision` mean.

Code follows its tensors: whatever it makes, it makes on the device of what it was given. Only the beginnings decide
(learning, evaluating, adapting, training a zoo), and they take a `Hardware`. Random numbers are always drawn on the CPU
and then moved, so that a seed means the same draws everywhere.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from dfml.errors import ConfigError

Precision = Literal["full", "mixed"]
"""`full`: float32 throughout. `mixed`: convolutions in bfloat16, all else, weights and sums among it, in float32.

Not float16: its smallest numbers are near those of gradients, which would have to be scaled up and down again. bfloat16
has float32's range, so nothing vanishes, and the digits it lacks are lost in the noise of stochastic descent.
"""


@dataclass(frozen=True)
class Hardware:
    """A device and how exactly to compute on it; as it is made, the reproducible choice."""

    device: torch.device = torch.device("cpu")
    mixed: bool = False

    def workers(self, wanted: int | None) -> int | None:
        """Processes to share out work to: a GPU is best fed by one, unless more are asked for."""
        return wanted if self.device.type == "cpu" else wanted or 1

    @property
    def precision(self) -> Precision:
        """By its name."""
        return "mixed" if self.mixed else "full"

    @property
    def notes(self) -> dict[str, str]:
        """What differs from the default, to be kept with a result."""
        device = {} if self.device.type == "cpu" else {"device": str(self.device)}
        return device | ({"precision": "mixed"} if self.mixed else {})


CPU = Hardware()


def find_hardware(device: str = "cpu", precision: str = "full") -> Hardware:
    """The hardware called so: `cpu`, `cuda`, `cuda:1` or `auto`, which is a GPU where there is one."""
    if precision not in get_args(Precision):
        raise ConfigError(f"unknown precision {precision!r}; choose one of {', '.join(get_args(Precision))}")
    return Hardware(_find_device(device), precision == "mixed")


def _find_device(name: str) -> torch.device:
    kind, colon, number = name.partition(":")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    if kind != "cuda" or (colon and not number.isdecimal()):
        raise ConfigError(f"unknown device {name!r}; choose cpu, cuda, cuda:1 or auto")
    if not torch.cuda.is_available():
        raise ConfigError(
            f"--device {name} was asked for, but this PyTorch ({torch.__version__}) finds no CUDA device it can use; "
            "install a CUDA build and its driver, or take --device cpu"
        )
    found = torch.cuda.device_count()
    if number and int(number) >= found:
        raise ConfigError(f"--device {name} was asked for, but the last of {found} is cuda:{found - 1}; take that")
    return torch.device(name)


def device_of(tensors: Mapping[str, Tensor]) -> torch.device:
    """Where a network's parameters are."""
    return next(iter(tensors.values())).device


def autocast(device: torch.device, *, mixed: bool) -> AbstractContextManager[Any]:
    """For forward passes; derivatives then follow by themselves. With `mixed`, bfloat16 where PyTorch finds it safe."""
    return torch.autocast(device.type, torch.bfloat16) if mixed else nullcontext()
