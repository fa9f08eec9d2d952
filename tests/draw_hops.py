"""Draws the hops of one query and of one run into docs/, from the import graph: `python tests/draw_hops.py`.

Rows and captions are given here; the arrows are found. A solid arrow is an import; one that other arrows stand for is
left out. A dashed one is a call through a seam: whoever calls knows the protocol, not the module. A module or a seam
that the source no longer has stops the drawing.
"""

from collections import defaultdict
from html import escape
from pathlib import Path
from typing import NamedTuple

from import_graph import SOURCE, imports, reachable

FOLDER = Path(__file__).parent.parent / "docs"
LEGEND = "solid, an import; dashed, a call through a seam"
WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 250, 50, 290, 96, 20


class Seam(NamedTuple):
    """Where one module calls another that it does not import."""

    caller: str
    called: str
    protocol: str


class Picture(NamedTuple):
    file: str
    title: str
    rows: tuple[dict[str, str], ...]
    """from the top: module -> what happens there; '' leaves a gap"""
    seams: tuple[Seam, ...] = ()


PICTURES = (
    Picture(
        "hops-query.svg",
        "The hops of one query",
        (
            {"methods.chorus.asking": "one question an image and API"},
            {"apis.ledger.metered": "on file already? within the budget?"},
            {
                "apis.ledger.fingerprint": "the image's key",
                "": "",
                "apis.ledger.ledger": "counted before it is sent",
            },
            {"apis.remote.api": "asked of a server, or", "apis.local.onnx": "computed here"},
            {"apis.remote.patience": "rate, retries, breaker", "apis.remote.inference_v2": "images to bytes and back"},
            {
                "apis.remote.host": "one exchange by urllib3",
                "apis.remote.reading": "nothing is trusted",
                "apis.scores": "any answer as probabilities",
            },
        ),
        (
            Seam("apis.ledger.metered", "apis.remote.api", "BlackBox"),
            Seam("apis.ledger.metered", "apis.local.onnx", "BlackBox"),
            Seam("apis.remote.api", "apis.remote.inference_v2", "WireFormat"),
        ),
    ),
    Picture(
        "hops-run.svg",
        "The hops of one run",
        (
            {"cli.learn": "the command, its progress"},
            {"learning": "plan, budget, resume"},
            {
                "apis.loading": "apis.toml to APIs",
                "methods": "found by name",
                "runs": "the run folder, its events",
            },
            {"methods.chorus.method": "ask, then distil"},
            {
                "images.prior": "pictures from nothing",
                "methods.chorus.asking": "what every API says",
                "methods.chorus.student": "one body, a head an API",
            },
            {"apis.ledger.metered": "every query passes here", "initialisation": "init.safetensors"},
            {"adaptation.classifier": "with a few labelled images: the product"},
            {"adaptation.student": "the network, frozen", "adaptation.heads": "how classes are told apart"},
        ),
        (Seam("methods", "methods.chorus.method", "Method"),),
    ),
)


class Arrow(NamedTuple):
    start: str
    end: str
    protocol: str = ""


def arrows(picture: Picture) -> list[Arrow]:
    """The hops between the modules of a picture that lead down or to the right."""
    graph = imports(offered=True)
    shown = [name for row in picture.rows for name in row if name]
    lost = [name for name in shown if f"dfml.{name}" not in graph]
    assert not lost, f"{picture.file}: there is no {', '.join(lost)} any more; tell the picture what took its place"
    found = [Arrow(a, b) for i, a in enumerate(shown) for b in shown[i + 1 :] if f"dfml.{b}" in graph[f"dfml.{a}"]]
    for caller, called, protocol in picture.seams:
        source = (SOURCE / f"{caller.replace('.', '/')}.py", SOURCE / caller.replace(".", "/") / "__init__.py")
        text = next(path for path in source if path.exists()).read_text()
        assert protocol in text, f"{picture.file}: {caller} does not know {protocol}; it calls {called} otherwise"
        assert Arrow(caller, called) not in found, f"{picture.file}: {caller} imports {called}: that is no seam"
        found.append(Arrow(caller, called, protocol))
    return _without_detours(found)


def _without_detours(found: list[Arrow]) -> list[Arrow]:
    """Those that no way through other modules of the picture stands for."""
    graph: dict[str, set[str]] = defaultdict(set)
    for arrow in found:
        graph[arrow.start].add(arrow.end)
    return [
        arrow
        for arrow in found
        if not any(arrow.end in reachable(other, graph) for other in graph[arrow.start] - {arrow.end})
    ]


def draw(picture: Picture) -> str:
    """The picture as SVG."""
    widest = max(map(len, picture.rows))
    width = 2 * MARGIN + ACROSS * (widest - 1) + WIDTH
    places: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(picture.rows):
        left = (width - ACROSS * (len(row) - 1) - WIDTH) / 2
        places |= {name: (left + ACROSS * i, 2.5 * MARGIN + DOWN * number) for i, name in enumerate(row)}
    height = 3 * MARGIN + DOWN * (len(picture.rows) - 1) + HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif">',
        f"<title>{picture.title}</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#456"/></marker></defs>',
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
        f'<text x="{MARGIN}" y="28" font-size="15" fill="#456">{picture.title}: {LEGEND}</text>',
        *(_arrow(arrow, places) for arrow in arrows(picture)),
        *(_box(name, text, *places[name]) for row in picture.rows for name, text in row.items() if name),
    ]
    return "\n".join([*lines, "</svg>", ""])


def _arrow(arrow: Arrow, places: dict[str, tuple[float, float]]) -> str:
    (x1, y1), (x2, y2) = places[arrow.start], places[arrow.end]
    if y1 == y2:
        x1, y1, y2 = x1 + WIDTH, y1 + HEIGHT / 2, y2 + HEIGHT / 2
        path = f"M{x1:g} {y1:g}L{x2:g} {y2:g}"
    else:
        x1, x2, y1 = x1 + WIDTH / 2, x2 + WIDTH / 2, y1 + HEIGHT
        bend = (y2 - y1) / 2
        path = f"M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"
    dashes = ' stroke-dasharray="5 4"' if arrow.protocol else ""
    line = f'<path d="{path}" fill="none" stroke="#456" stroke-width="1.2"{dashes} marker-end="url(#tip)"/>'
    if not arrow.protocol:
        return line
    place = f'x="{x2 + 6:g}" y="{y2 - 10:g}"'
    return f'{line}<text {place} font-size="11" font-style="italic" fill="#456">{arrow.protocol}</text>'


def _box(name: str, text: str, x: float, y: float) -> str:
    middle = x + WIDTH / 2
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#eef3f8" stroke="#456"/>'
        f'<text x="{middle:g}" y="{y + 20:g}" font-size="13" text-anchor="middle" font-weight="bold">{name}</text>'
        f'<text x="{middle:g}" y="{y + 38:g}" font-size="12" text-anchor="middle" fill="#333">{escape(text)}</text>'
    )


if __name__ == "__main__":
    for each in PICTURES:
        (FOLDER / each.file).write_text(draw(each))
