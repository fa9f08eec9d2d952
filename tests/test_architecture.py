"""The data-free claim, as a property of the import graph: what learns cannot see a real image."""

import subprocess
import sys

import pytest

import draw_hops
from import_graph import imports, reachable, room_of

REAL = ("data", "zoo", "evaluation", "bench", "report", "play", "cli")
"""rooms that read real images, or results about them"""
LAYERS = (
    ("cli",),
    ("play",),
    ("report",),
    ("bench",),
    ("zoo", "evaluation"),
    ("data",),
    ("serving", "learning", "probing"),
    ("adaptation",),
    ("methods",),
    ("meta", "engine"),
    ("recovery", "initialisation"),
    ("images", "apis", "runs"),
    ("nets", "losses", "episode", "notebook", "cards"),
    ("status",),
    ("config", "schema", "hardware", "files", "events"),
    ("rng", "runtime", "pictures", "words"),
    ("errors",),
)
"""a room imports from layers below its own, never from above; `LAZY` are the exceptions, made inside a function"""
LAZY = {("initialisation", "adaptation")}
BLIND = tuple(room for layer in LAYERS[LAYERS.index(("data",)) + 1 :] for room in layer)


@pytest.mark.parametrize("room", BLIND)
def test_what_learns_never_reaches_real_images(room):
    graph = imports()
    modules = [name for name in graph if name == f"dfml.{room}" or name.startswith(f"dfml.{room}.")]
    assert modules, f"there is no room {room} any more; mend this test"
    for module in modules:
        real = {name for name in reachable(module, graph) if room_of(name) in REAL}
        assert not real, f"{module} can reach {sorted(real)}"


def test_rooms_import_from_below_only():
    level = {room: depth for depth, layer in enumerate(LAYERS) for room in layer}
    known = {room_of(name) for name in imports()} - {"", "__main__"}
    assert known == set(level), "every room has its layer"
    upwards = {
        (room_of(name), room_of(target))
        for name, targets in imports().items()
        for target in targets
        if room_of(name) in level and room_of(target) in level
        if room_of(name) != room_of(target) and level[room_of(target)] <= level[room_of(name)]
    }
    assert upwards <= LAZY


def test_the_page_to_play_on_stands_on_what_everybody_can_use():
    graph = imports()
    used = {target for name in graph if room_of(name) == "play" for target in graph[name] if room_of(target) != "play"}
    assert {room_of(target) for target in used} <= {"", "errors", "data", "report"}


@pytest.mark.parametrize("picture", draw_hops.PICTURES, ids=lambda picture: picture.file)
def test_the_pictures_of_the_hops_are_current(picture):
    drawn = (draw_hops.FOLDER / picture.file).read_text()
    assert drawn == draw_hops.draw(picture), "imports have changed; run: python tests/draw_hops.py"


def test_help_answers_without_loading_torch():
    code = "import sys; from dfml.cli import parser; parser().format_help(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_python_m_dfml_is_the_command():
    result = subprocess.run([sys.executable, "-m", "dfml", "--help"], capture_output=True, text=True, check=True)
    assert "usage: dfml" in result.stdout
