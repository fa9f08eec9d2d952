"""Where to compute and how exactly: what `--device` and `--precision` mean.

Code follows its tensors: whatever it makes, it makes on the device of what it was given. Only the beginnings decide
(learning, evaluating, adapting, training a zoo), and they take a `Hardware`. Random numbers are always drawn on the CPU
and then moved, so that a seed means the same draws everywhere.
"""

import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from dfml.errors import ConfigError

Precision = Literal["full", "mixed"]
"""`full`: float32 throughout. `mixed`: convolutions in bfloat16, all else, weights and sums among it, in float32.

Not float16: its smallest numbers are near those of gradients, which would have to be scaled up and down again. bfloat16
has float32's range, so nothing vanishes, and the digits it lacks are lost in the noise of stochastic descent.
"""

_TRIAL = """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a process that is killed leaves no file behind
import torch
from torch.nn import Conv2d, Linear
torch.set_num_threads(1)
torch.manual_seed(0)
trials = [  # each kind small and large: the size decides which instructions are used
    (Linear(8, 4), (2, 8)),
    (Linear(256, 256), (256, 256)),
    (Conv2d(3, 4, 3, padding=1), (2, 3, 8, 8)),
    (Conv2d(3, 32, 3, padding=1), (128, 3, 32, 32)),
    (Conv2d(32, 32, 3, padding=1).to(memory_format=torch.channels_last), (8, 32, 16, 16)),
]
for layer, shape in trials:
    images = torch.rand(shape).requires_grad_()
    exact = layer(images)
    with torch.autocast("cpu", torch.bfloat16):
        rough = layer(images).float()
    rough.square().sum().backward()
    derivatives = (images.grad, layer.weight.grad, layer.bias.grad)
    if not (rough - exact).norm() < 0.05 * exact.norm() or not all(g.isfinite().all() for g in derivatives):
        raise ArithmeticError(f"{layer} computes something else in bfloat16")
"""
"""What a child process tries before bfloat16 is used on the CPU; it raises, or is killed, where that goes wrong."""
_TRIAL_SECONDS = 120.0
"""Longer than it takes to load PyTorch from a slow disk; the products themselves take about a second."""


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
    hardware = Hardware(_find_device(device), precision == "mixed")
    if hardware.mixed and hardware.device.type == "cpu" and (fault := bfloat16_fault()):
        raise ConfigError(
            f"--precision mixed was asked for, but products in bfloat16 fail on this processor ({fault}); "
            "take --precision full"
        )
    return hardware


@cache
def bfloat16_fault() -> str | None:
    """How products in bfloat16 fail on this CPU; None where they compute.

    Some virtual machines announce matrix units that they do not let be used, and the first product ends the process. So
    a child process tries, once, and takes a few seconds.
    """
    command = [sys.executable, "-P", "-c", _TRIAL]  # -P: no file of the working folder is taken for a module
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"a process that tried them did not end within {_TRIAL_SECONDS:g} s"
    except OSError as error:
        return f"no process could be started to try them: {error}"
    if done.returncode < 0:
        return f"a process that tried them was ended by {_signal_name(-done.returncode)}"
    if done.returncode > 0:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        return f"a process that tried them failed: {told[-1] if told else f'exit code {done.returncode}'}"
    return None


def _signal_name(number: int) -> str:
    known = [each.name for each in signal.Signals if each == number]
    return known[0] if known else f"signal {number}"


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
