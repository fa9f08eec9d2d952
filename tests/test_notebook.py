"""What notebooks show: facts about products, and learning as it goes; a stranger's words stay words."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from dfml import ApiSpec, FunctionApi, Initialisation, learn
from dfml.events import LearningFinished, LearningStarted, Remark, Replayed, Spent
from dfml.notebook import Drawn, facts_table

EVIL = "<script>alert(1)</script>"


def light(images):
    mean = images.mean((1, 2, 3))
    return np.stack([mean, 1 - mean], 1)


SPEC = ApiSpec(name=EVIL, classes=("light", "dark"), image=(3, 8, 8))


@pytest.fixture
def kernel(monkeypatch):
    """A notebook's kernel, as far as a library can see one; the list of what it was told to show."""
    shown = []
    module, drawing = ModuleType("IPython"), ModuleType("IPython.display")
    handle = SimpleNamespace(update=shown.append)
    module.get_ipython = lambda: SimpleNamespace(config={"IPKernelApp": {}})  # type: ignore[attr-defined]
    drawing.HTML, drawing.display = str, lambda text, display_id: handle  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", drawing)
    return shown


def test_learning_draws_itself_in_a_notebook_and_nowhere_else(kernel, tmp_path, capsys):
    init = learn([FunctionApi(light, SPEC)], tmp_path / "run", settings=["distil.steps=2"], budget=40)
    assert "40 of 40 queries; learned" in kernel[-1]
    assert EVIL not in "".join(kernel)
    drawn = len(kernel)
    learn([FunctionApi(light, SPEC)], tmp_path / "own", settings=["distil.steps=2"], budget=40, on_event=lambda e: None)
    assert len(kernel) == drawn, "whoever listens draws for himself"
    assert capsys.readouterr() == ("", "")
    assert isinstance(init, Initialisation)


def test_products_show_what_they_are(tmp_path):
    init = learn([FunctionApi(light, SPEC)], tmp_path / "run", settings=["distil.steps=1"], budget=40)
    assert "40 answers of 1 APIs" in init._repr_html_()
    assert "data-free" in init._repr_html_()
    images = np.stack([np.full((3, 8, 8), value, np.uint8) for value in (10, 240)])
    shown = init.adapt(images, ["night", EVIL])._repr_html_()
    assert "2: " in shown
    assert "night" in shown
    assert "<script" not in shown


def test_a_classifier_that_is_not_fitted_says_so():
    from dfml import FewShotClassifier

    assert "not fitted yet" in FewShotClassifier("run")._repr_html_()


def test_drawings_come_now_and_then_and_at_the_end():
    times, drawn = iter(np.arange(0, 100, 0.01)), []
    draw = Drawn(drawn.append, clock=lambda: float(next(times)))
    draw(LearningStarted(method="m", apis=1, iterations=200, budget=None))
    for iteration in range(200):
        draw(Replayed(iteration=iteration, loss=1.0, accuracy=0.5))
    assert 2 < len(drawn) < 100
    draw(Spent(queries=7, usd=0.5))
    draw(LearningFinished(queries=7, seconds=1.0, peak_memory_mb=1))
    assert drawn[-1].endswith("<div>7 queries for 0.50 USD; learned</div>")


def test_what_is_said_once_stays_to_be_read():
    drawn: list[str] = []
    draw = Drawn(drawn.append)
    draw(Remark(text=f"half of it is left {EVIL}"))
    assert "half of it is left &lt;script&gt;" in drawn[-1]


def test_facts_are_escaped():
    assert "<script" not in facts_table(EVIL, {EVIL: EVIL})
