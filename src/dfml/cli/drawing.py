"""How the command line looks: tables and histograms. Results go to standard output, all else to standard error."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

console = Console(highlight=False)
progress_console = Console(stderr=True, highlight=False)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, shorten: str | None = None) -> Table:
    """A plain table; the column `shorten` gives way when the terminal is narrow."""
    drawn = Table(box=None, pad_edge=False)
    for title in titles:
        fixed = None if title == shorten else max(len(title), *(len(row[len(drawn.columns)]) for row in rows), 1)
        drawn.add_column(
            title, no_wrap=True, overflow="ellipsis", min_width=fixed, ratio=1 if title == shorten else None
        )
    for row in rows:
        drawn.add_row(*map(Text, row))  # a name with brackets is no markup
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
