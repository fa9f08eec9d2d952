"""How far long work is: bars on a terminal, and a line every few seconds where there is none."""

import threading
import time
from typing import Any

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from dfml.cli.drawing import progress_console
from dfml.words import duration

FEW_SECONDS, MINUTE = 5.0, 60.0
"""between two lines: at first, and after an hour"""
PACE = 600.0
"""seconds over which the speed is measured: APIs and tasks differ, so a shorter time would promise too much"""


def progress_bars() -> Progress:
    """Bars with time spent and time left; they vanish when the work is done.

    Of a task whose total is 1 the share is shown, of others the count. `to_go`, a field of a task, replaces the seconds
    that follow from its speed.
    """
    return _bars() if progress_console.is_interactive else Lines()


def _bars() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),  # gives way
        BarColumn(bar_width=10),
        TextColumn("{task.percentage:3.0f} %"),
        _Counted(),
        TimeElapsedColumn(),
        _ToGo(),
        console=progress_console,
        transient=True,
        expand=True,
        speed_estimate_period=PACE,
    )


class _Counted(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(counted(task))


class _ToGo(ProgressColumn):
    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        return Text(to_go(task))


def counted(task: Task) -> str:
    """`12/40`, where something is counted."""
    return "" if task.total is None or task.total <= 1 else f"{int(task.completed):,}/{int(task.total):,}"


def to_go(task: Task) -> str:
    """`about 40 s to go`, as soon as that can be told."""
    seconds = task.fields.get("to_go", task.time_remaining)
    return "" if seconds is None or task.finished else f"about {duration(seconds)} to go"


def line(task: Task) -> str:
    """A task in words: `building the zoo, 3/12, 25 %, about 40 s to go`."""
    share = "" if task.total is None else f"{task.percentage:.0f} %"
    return ", ".join(part for part in (task.description, counted(task), share, to_go(task)) if part)


class Parts:
    """Bars of pieces of work that run side by side and each tell their share."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._running: dict[str, tuple[TaskID, float]] = {}

    def show(self, name: str, share: float, description: str = "") -> float:
        """One piece has come so far; how far are all together, in pieces."""
        task = self._running[name][0] if name in self._running else self._bars.add_task(description or name, total=1.0)
        self._bars.update(task, completed=share)
        self._running[name] = task, share
        return self._together

    def end(self, name: str) -> float:
        """One piece is done and leaves; how far are the others together."""
        if name in self._running:
            self._bars.remove_task(self._running.pop(name)[0])
        return self._together

    @property
    def _together(self) -> float:
        return sum(share for _, share in self._running.values())


class Lines(Progress):
    """The same tasks as lines: now and then the first that is shown, and the one that moved last."""

    def __init__(self) -> None:
        super().__init__(console=progress_console, disable=True, speed_estimate_period=PACE)
        self._ended = threading.Event()
        self._moved: Task | None = None

    def start(self) -> None:
        self._ended.clear()
        threading.Thread(target=self._speak, args=(time.monotonic(),), daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        with self._lock:
            self._moved = self._tasks.get(task_id)

    def text(self) -> str:
        """Where the work stands."""
        with self._lock:
            shown = [task for task in self._tasks.values() if task.visible and not task.finished]
            told = shown[:1] + [task for task in shown[1:] if task is self._moved]
            return "; ".join(map(line, told))

    def _speak(self, begun: float) -> None:
        """A line every few seconds; in long work fewer, so that a night does not fill a log."""
        while not self._ended.wait(min(MINUTE, max(FEW_SECONDS, (time.monotonic() - begun) / 60))):
            if told := self.text():
                self.console.print(f"{duration(time.monotonic() - begun)}: {told}", markup=False, soft_wrap=True)
