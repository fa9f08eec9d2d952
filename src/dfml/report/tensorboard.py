"""Learning as TensorBoard shows it: the numbers of every event, while they come."""

import dataclasses
from pathlib import Path
from typing import Any

from dfml.errors import ConfigError
from dfml.events import Event

FOLDER = "tensorboard"


class TensorBoard:
    """Writes to `run`/tensorboard, which it makes with the first event: before that, the folder is not the run's yet.

    Every number of an event that knows its iteration becomes a scalar called `Event/field`.
    """

    def __init__(self, run: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # slow to load, and needs another package
        except ModuleNotFoundError:
            raise ConfigError(
                "--tensorboard needs the package tensorboard; install it with `pip install 'dfml[tensorboard]'`"
            ) from None
        self._open, self._run = SummaryWriter, run
        self._writer: Any = None

    def show(self, event: Event) -> None:
        """Write what `event` measures."""
        values = dataclasses.asdict(event)
        iteration = values.pop("iteration", None)
        if iteration is None:
            return
        if self._writer is None:
            self._writer = self._open(str(self._run / FOLDER))
        for field, value in values.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(f"{type(event).__name__}/{field}", value, iteration)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> "TensorBoard":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
