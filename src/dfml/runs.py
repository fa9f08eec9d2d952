"""The run folder: everything one run writes, and the promise that it is one run.

run/config.toml          method, settings, APIs, seed, budget
    ledger/*.sqlite      every answer that was paid for
    events.jsonl         what happened
    recovered/*          images that came out of APIs; of chorus, those that each API is surest of
    tensorboard/         the curves, where that was asked for
    checkpoint.safetensors
    init.safetensors     the product
    README.md            its model card
"""

import fcntl
import json
import time
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tomli_w

from dfml.errors import ArtifactError, ConfigError
from dfml.events import Event
from dfml.files import write_whole

CHECKPOINT, INITIALISATION = "checkpoint.safetensors", "init.safetensors"


class RunFolder:
    """One run's folder, locked while it is open. Use it as a context manager."""

    def __init__(self, path: str | Path, config: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / ".lock").open("w")
        except OSError as error:
            raise ConfigError(
                f"cannot use {self.path} as a run folder: {error.strerror}; choose another --out"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise ConfigError(
                f"{self.path} is in use by another process; wait for it to end or choose another --out"
            ) from None
        try:
            self.resumed = self._claim(config, resume=resume)
        except BaseException:
            self._lock.close()
            raise
        self._events = (self.path / "events.jsonl").open("a")

    @property
    def checkpoint(self) -> Path:
        return self.path / CHECKPOINT

    @property
    def recovered(self) -> Path:
        """The folder of the images that came out of APIs."""
        return self.path / "recovered"

    @property
    def initialisation(self) -> Path:
        return self.path / INITIALISATION

    @property
    def finished(self) -> bool:
        """The product is there; a resumed run has nothing left to do."""
        return self.initialisation.exists()

    def write(self, event: Event) -> None:
        """Keep `event`, if it is worth keeping."""
        if event.kept:
            try:
                self._events.write(json.dumps({"time": round(time.time(), 3)} | event.to_json()) + "\n")
                self._events.flush()
            except OSError as error:
                raise ArtifactError(
                    f"cannot write {self.path / 'events.jsonl'}: {error.strerror}; free some space, then use --resume"
                ) from None

    def _claim(self, config: Mapping[str, Any], *, resume: bool) -> bool:
        """Write the config, or compare it with what is there; say whether an earlier run goes on."""
        file = self.path / "config.toml"
        text = tomli_w.dumps(config)
        if not file.exists():
            strangers = [p.name for p in self.path.iterdir() if p.name != ".lock"]
            if strangers:
                raise ConfigError(f"{self.path} holds {strangers[0]}, but no run of dfml; choose another --out")
            write_whole(file, text.encode())
            return False
        before = read_config(self.path)
        wanted = tomllib.loads(text)
        if _lasting(before) != _lasting(wanted):
            what = ", ".join(_differences(before, wanted)[:5])
            raise ConfigError(
                f"{self.path} holds a run with another config ({what}); repeat it or choose another --out"
            )
        if not resume:
            state = "a finished" if self.finished else "an unfinished"
            raise ConfigError(f"{self.path} holds {state} run; add --resume to go on with it or choose another --out")
        if before != wanted:
            write_whole(file, text.encode())
        return True

    def close(self) -> None:
        with suppress(OSError):  # a full disk was reported when the event was written
            self._events.close()
        self._lock.close()  # gives the lock back

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


BUDGETS = ("budget", "budget_per_api", "budgets")
"""what a run that is resumed may change: more, or less, may be spent than was meant at first"""


def has_learned(run: Path) -> bool:
    """Whether a run has come to anything: methods that read weights do without a query."""
    return any((run / name).exists() for name in (CHECKPOINT, INITIALISATION))


def start_again(run: Path, config: Mapping[str, Any]) -> None:
    """Give a run that has no answers and has learned nothing another config; its ledgers stay, and know of money."""
    with RunFolder(run, read_config(run), resume=True):
        write_whole(run / "config.toml", tomli_w.dumps(config).encode())


def read_config(run: Path) -> dict[str, Any]:
    """The config a run was started with."""
    try:
        return tomllib.loads((run / "config.toml").read_text())
    except FileNotFoundError:
        raise ArtifactError(f"{run} is no run folder: it has no config.toml; name one that dfml learn wrote") from None
    except tomllib.TOMLDecodeError as error:
        raise ArtifactError(f"{run / 'config.toml'} is damaged: {error}; start a new run") from None


def _lasting(config: Mapping[str, Any]) -> dict[str, Any]:
    """What must stay the same in a run that is resumed."""
    return {key: value for key, value in config.items() if key not in BUDGETS}


def _differences(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append(f"{prefix}{key} was {old}, not {new}")
    return found
