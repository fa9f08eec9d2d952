"""How things look in a notebook: facts as a small table, and learning as a bar that moves below its cell."""

import html
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from dfml.errors import shown
from dfml.events import Event, LearningFinished
from dfml.status import LearningStatus
from dfml.words import duration

BETWEEN = 0.25
"""seconds between two drawings"""


def facts_table(title: str, facts: Mapping[str, Any]) -> str:
    """Facts as HTML; a stranger's words in them are words."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(shown(str(fact), 400))}</td></tr>"
        for name, fact in facts.items()
    )
    return f"<table><caption style='text-align:left'><b>{html.escape(title)}</b></caption>{rows}</table>"


def progress_here() -> Callable[[Event], None] | None:
    """What draws the events of learning below the cell that runs it; None where there is no notebook."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None or "IPKernelApp" not in shell.config:
        return None
    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)
    return Drawn(lambda text: handle.update(HTML(text)))


class Drawn:
    """Events as HTML, given to `draw` now and then and at the end."""

    def __init__(self, draw: Callable[[str], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._draw, self._clock = draw, clock
        self._status, self._said, self._last = LearningStatus(clock), list[str](), -BETWEEN

    def __call__(self, event: Event) -> None:
        if said := self._status.see(event):
            self._said.append(said)
        now, done = self._clock(), isinstance(event, LearningFinished)
        if said or done or now - self._last >= BETWEEN:
            self._last = now
            self._draw(self.text(done=done))

    def text(self, *, done: bool = False) -> str:
        """Where learning stands, as HTML."""
        status = self._status
        said = "".join(f"<div>{html.escape(shown(line, 400))}</div>" for line in self._said[-5:])
        if done:
            return f"{said}<div>{html.escape(status.spent or 'nothing was asked')}; learned</div>"
        share = f" value='{status.done}' max='{status.total}'" if status.total else ""
        to_go = "" if status.to_go is None else f", about {duration(status.to_go)} to go"
        return f"{said}<progress{share}></progress> {html.escape(shown(status.text, 400) + to_go)}"
