"""The documentation site: `make docs` builds it into site/, from the pages as they lie in the repository.

The repository itself is the source folder and README.md the front page, so that a link means the same here and where
people read the files. What is added on the way: the contents, the tutorial's cells as text, the command line's help,
and the docstrings of all public names. Nothing is loaded from elsewhere, neither now nor by a reader's browser.
"""

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import dfml
from dfml.cli import parser

CONTENTS = {
    "Tutorial": ["docs/tutorial"],
    "How to": [
        "docs/endpoints",
        "docs/real",
        "docs/play",
        "docs/report",
        "docs/serving",
        "docs/gpu",
        "docs/scale",
        "docs/methods",
    ],
    "Reference": ["docs/commands", "docs/api", "docs/deviations"],
    "Explanation": ["docs/architecture", "docs/bidf-mkd", "docs/queries", "docs/bench", "docs/relatives"],
    "Project": ["CONTRIBUTING", "SECURITY", "CHANGELOG"],
}

project, author, copyright = "dfml", "the dfml authors", "the dfml authors, Apache-2.0"
release = dfml.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
include_patterns = ["*.md", "docs/*.md", "docs/*.ipynb"]
exclude_patterns = [".*", "src", "tests", "results", "benchmarks", "examples", "demo", "runs", "site"]

myst_heading_anchors = 4
default_role = "code"  # docstrings put names in single backticks
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"dfml {release}"
html_copy_source = False
html_show_sphinx = False


def setup(app):
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", drop_drawings)
    app.connect("build-finished", open_with_readme)


def fill(app, name, source):
    """What a page gets besides its own text."""
    if name == root_doc:
        source[0] += "".join(
            f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
            for caption, pages in CONTENTS.items()
        )
    elif name == "docs/tutorial":
        source[0] = "\n\n".join(_as_text(cell) for cell in json.loads(source[0])["cells"])
    elif name == "docs/commands":
        source[0] += "".join(f"\n## {verb.prog}\n\n```text\n{verb.format_help()}```\n" for verb in _verbs(parser()))
    elif name == "docs/api":
        source[0] += "".join(_documented(public) for public in dfml.__all__)


def _as_text(cell):
    text = "".join(cell["source"])
    return text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"


def _verbs(command: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The commands that can be typed: the leaves."""
    below = [action.choices for action in command._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield command
    for verbs in below:
        for verb in verbs.values():
            yield from _verbs(verb)


def _documented(name: str) -> str:
    public = getattr(dfml, name)
    kind = "class" if isinstance(public, type) else "module" if isinstance(public, ModuleType) else "function"
    path = f"dfml.{name}" if kind == "module" else name
    members = "" if kind == "function" else "   :members:\n"
    if kind == "class":  # what it has from classes of ours is its own, to a reader
        members += "   :inherited-members: Exception, Protocol\n"
    return f"\n## {name}\n\n```{{eval-rst}}\n.. currentmodule:: dfml\n.. auto{kind}:: {path}\n{members}```\n"


def drop_drawings(app, what, name, public, options, lines):
    """Docstrings of modules are for readers of the code; some draw in them."""
    if what == "module":
        lines.clear()


def open_with_readme(app, error):
    """A folder is opened at index.html; pictures that pages name in HTML lie where they lay."""
    if error is None:
        shutil.copyfile(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")
        for picture in (Path(app.confdir) / "screenshots").glob("*.png"):
            place = Path(app.outdir) / "docs" / "screenshots" / picture.name
            place.parent.mkdir(exist_ok=True)
            shutil.copyfile(picture, place)
