"""How the command line looks: tables, bars, histograms. Progress goes to standard error, results to standard output."""

from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

console = Console(highlight=False)
progress_console = Console(stderr=True, highlight=False)


def progress_bars() -> Progress:
    """Bars with time spent and time left; they vanish when the work is done."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=progress_console,
        transient=True,
    )


def percent(fraction: float | None) -> str:
    """0.8431 as `84.3 %`."""
    return "" if fraction is None else f"{100 * fraction:.1f} %"


def amount(count: float) -> str:
    """Bytes as `1.2 GB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}" if count < 10 * size else f"{count / size:.0f} {unit}"
    return f"{count / 1e3:.0f} kB"


def duration(seconds: float) -> str:
    """4000 as `1.1 h`."""
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, shorten: str | None = None) -> Table:
    """A plain table; the column `shorten` gives way when the terminal is narrow."""
    drawn = Table(box=None, pad_edge=False)
    for title in titles:
        fixed = None if title == shorten else max(len(title), *(len(row[len(drawn.columns)]) for row in rows), 1)
        drawn.add_column(
            title, no_wrap=True, overflow="ellipsis", min_width=fixed, ratio=1 if title == shorten else None
        )
    for row in rows:
        drawn.add_row(*row)
    return drawn


def histogram(fractions: Sequence[float], *, step: float = 0.05, width: int = 40) -> str:
    """How many values fall into each step of 5 percentage points, as rows of blocks."""
    if not fractions:
        return ""
    counts: dict[int, int] = {}
    for value in fractions:
        bin_ = min(int(value / step + 1e-9), round(1 / step) - 1)
        counts[bin_] = counts.get(bin_, 0) + 1
    most = max(counts.values())
    rows = []
    for bin_ in range(min(counts), max(counts) + 1):
        count = counts.get(bin_, 0)
        blocks = "█" * round(width * count / most)
        rows.append(f"{100 * bin_ * step:3.0f}-{100 * (bin_ + 1) * step:3.0f} %  {blocks} {count}")
    return "\n".join(rows)
