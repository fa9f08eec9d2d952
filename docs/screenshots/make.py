"""The screenshots of the README, made anew: `dfml play`, the report and a terminal.

    dfml zoo build --apis 8 --out zoo/ && dfml learn zoo/ --budget 4000 --out run/
    python tests/real/networks.py MODELS networks/     # public networks; docs/real.md says where they come from
    python docs/screenshots/make.py run/ networks/apis.toml

The pictures are crops of photographs that scikit-image ships (pip install --no-deps scikit-image), all in the public
domain. Needs Chromium on the path, and the extras play, report and dev.
"""

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.text import Text

CLASSES = {"cat": "chelsea.png", "coffee": "coffee.png", "rocket": "rocket.jpg", "gravel": "gravel.png"}
TAUGHT, TRIED = 4, 3
"""pictures of each class"""
COLOURS = 192
"""of a screenshot's palette: few enough for a small file"""
LARGEST = 200_000
"""bytes of a screenshot"""
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #15171b; color: #e8e6e1; padding: 18px 22px; width: max-content;
  font: 14px/1.45 "DejaVu Sans Mono", monospace; }} pre {{ margin: 0; font: inherit; }} b {{ color: #62c6d1; }}
{css}</style><body>{body}</body>"""


def main() -> None:
    parser = argparse.ArgumentParser(description="make the screenshots of the README anew")
    parser.add_argument("run", type=Path)
    parser.add_argument("apis", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        work = Path(place)
        photographs(work)
        shutil.copytree(args.run, work / "run", ignore=shutil.ignore_patterns("play"))
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--disable-gpu"])
        play(chromium, work, args.apis.resolve(), args.out)
        report(chromium, work, args.out)
        terminal(chromium, work, args.out)
        chromium.close()


def photographs(work: Path) -> None:
    """Crops of one photograph a class: some to teach, others to try."""
    package = find_spec("skimage")
    if package is None or not package.submodule_search_locations:
        sys.exit("the photographs are missing; pip install --no-deps scikit-image")
    data = Path(package.submodule_search_locations[0]) / "data"
    rng = np.random.default_rng(7)
    for name, file in CLASSES.items():
        photograph = Image.open(data / file).convert("RGB")
        for number in range(TAUGHT + TRIED):
            folder = work / "photos" / name if number < TAUGHT else work / "new"
            folder.mkdir(parents=True, exist_ok=True)
            crop(photograph, rng).save(folder / f"{name} {number + 1}.jpg", quality=90)


def crop(photograph: Image.Image, rng: np.random.Generator) -> Image.Image:
    side = int(min(photograph.size) * rng.uniform(0.5, 0.95))
    left, top = (int(rng.integers(0, length - side + 1)) for length in photograph.size)
    part = photograph.crop((left, top, left + side, top + side)).resize((256, 256))
    return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else part


def play(chromium: Any, work: Path, apis: Path, out: Path) -> None:
    """Taught, tried and asked; in the light, in the dark, and one picture closely."""
    options = ("run", "--support", "photos", "--ask", str(apis), "--budget", "500")
    with dfml_play(work, *options) as address:
        page = visit(chromium, address, height=1010)
        page.locator("#tray-drop input[type=file]").set_input_files(sorted((work / "new").iterdir()))
        page.locator("#tray .certainty", has_text="%").nth(len(CLASSES) * TRIED - 1).wait_for()
        page.get_by_role("switch").click()
        page.get_by_role("button", name="Ask them").click()
        page.get_by_text("asking…").first.wait_for(state="hidden", timeout=300_000)
        page.locator("#tray .change:not(:empty)").first.wait_for()
        shoot(page, out / "play.png")
        page.locator("#tray .judged", has=page.locator(".change:not(:empty)")).first.click()
        every = page.get_by_role("button", name="Ask every API")
        if every.is_visible():
            every.click()
            every.wait_for(state="hidden")
        page.locator("#detail .nearest img").last.wait_for()
        shoot(page, out / "play-closely.png", page.locator("#detail"))
        page.get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Save the classifier").click()
        page.locator("#saved", has_text="Saved in").wait_for()
        shoot(visit(chromium, address, height=1010, scheme="dark"), out / "play-dark.png")


def report(chromium: Any, work: Path, out: Path) -> None:
    dfml(work, "report", "run", "--out", "report.html")
    page = visit(chromium, (work / "report.html").as_uri(), height=1180, ready="main")
    shoot(page, out / "report.png")


def terminal(chromium: Any, work: Path, out: Path) -> None:
    """Commands as they are typed, and what they print."""
    commands = (("ledger", "run/play"), ("predict", "run/play", "new", "--ask", "0.5", "--budget", "500"))
    console = Console(record=True, width=110, file=io.StringIO(), force_terminal=True)
    for command in commands:
        console.print(Text.assemble(("$ ", "bold cyan"), ("dfml " + " ".join(command), "bold")))
        console.print(Text.from_ansi(dfml(work, *command)))
    css, _, body = console.export_html(code_format="{stylesheet}\0<pre>{code}</pre>").partition("\0")
    (work / "terminal.html").write_text(TERMINAL.format(css=css, body=body))
    page = visit(chromium, (work / "terminal.html").as_uri(), height=400, ready="pre")
    shoot(page, out / "terminal.png", page.locator("body"))


def dfml(work: Path, *arguments: str) -> str:
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": "110"}
    command = [sys.executable, "-m", "dfml", *arguments]
    return subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=True).stdout


@contextmanager
def dfml_play(work: Path, *options: str) -> Iterator[str]:
    command = [sys.executable, "-m", "dfml", "play", *options, "--no-browser"]
    with subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[2]
        finally:
            server.terminate()


def visit(chromium: Any, address: str, *, height: int, scheme: str = "light", ready: str = "html[data-ready]") -> Page:
    page: Page = chromium.new_context(viewport={"width": 1180, "height": height}, color_scheme=scheme).new_page()
    page.set_default_timeout(180_000)
    page.goto(address)
    page.locator(ready).first.wait_for(state="attached")
    page.wait_for_timeout(1500)  # pictures that come into sight
    return page


def shoot(page: Page, file: Path, part: Any = None) -> None:
    """A screenshot with few colours, so that it is small."""
    page.mouse.move(0, 0)
    page.wait_for_timeout(500)
    drawn = Image.open(io.BytesIO((part or page).screenshot())).convert("RGB")
    drawn.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(file, optimize=True)
    assert file.stat().st_size < LARGEST, f"{file} has {file.stat().st_size:,} bytes"
    print(file, f"{file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
