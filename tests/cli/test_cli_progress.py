"""Progress where there is no terminal: lines, now and then, that say where the work stands."""

import time

import pytest
from rich.console import Console

from dfml.cli import progress
from dfml.cli.progress import Lines, Parts, line, progress_bars


@pytest.mark.parametrize(
    ("terminal", "term", "lines"), [(False, "xterm", True), (True, "dumb", True), (True, "xterm", False)]
)
def test_bars_are_for_terminals_that_can_draw_them(monkeypatch, terminal, term, lines):
    console = Console(force_terminal=terminal, _environ={"TERM": term})
    monkeypatch.setattr(progress, "progress_console", console)
    assert isinstance(progress_bars(), Lines) == lines


def test_on_a_narrow_terminal_the_words_give_way_to_the_numbers(monkeypatch):
    console = Console(force_terminal=True, width=80, _environ={"TERM": "xterm"}, color_system=None)
    monkeypatch.setattr(progress, "progress_console", console)
    bars = progress_bars()
    bars.add_task("learning, 12,000 of 50,000 queries: " + "long words " * 10, total=150, completed=30, to_go=189.0)
    with console.capture() as drawn:
        console.print(bars.get_renderable())
    (shown,) = drawn.get().splitlines()
    assert len(shown) <= 80
    assert shown.startswith("learning, ")
    for number in ("20 %", "30/150", "about 189 s to go"):
        assert number in shown


def test_lines_come_without_any_news(monkeypatch, capsys):
    """A step may take long: the lines must not wait for the next one. And no line comes after the end."""
    monkeypatch.setattr(progress, "FEW_SECONDS", 0.01)
    with progress_bars() as bars:
        bars.add_task("drawing [bold]", total=4, completed=1)
        while not (told := capsys.readouterr().err):
            time.sleep(0.01)
    assert "drawing [bold], 1/4, 25 %" in told
    time.sleep(0.05)
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_a_line_says_all_of_it_and_what_moved_last():
    bars = Lines()
    whole, first, second = (bars.add_task(name, total=1.0) for name in ("all", "first", "second"))
    bars.update(first, completed=0.5)
    bars.update(second, completed=0.25)
    assert bars.text() == "all, 0 %; second, 25 %"
    bars.remove_task(second)
    bars.update(whole, completed=0.5, to_go=90.0)
    assert bars.text() == "all, 50 %, about 90 s to go"
    assert line(bars.tasks[1]) == "first, 50 %"


def test_time_to_go_follows_from_the_speed():
    """Ten of forty in 20 s (the first one is only when the clock starts): the other thirty take 60 s."""
    bars = Lines()
    bars.get_time = iter([0.0] + [2.0 * step for step in range(200)]).__next__
    task = bars.add_task("work", total=40)
    for _ in range(10):
        bars.advance(task)
    assert bars.tasks[0].time_remaining == pytest.approx(60, rel=0.15)


def test_pieces_side_by_side_count_for_what_they_have_done():
    parts = Parts(Lines())
    assert parts.show("a", 0.5) == 0.5
    assert parts.show("b", 0.25) == 0.75
    assert parts.end("a") == 0.25
    assert parts.end("never seen") == 0.25
