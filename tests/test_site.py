"""The documentation site is built without a warning, and a reader's browser asks nobody for anything."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import dfml
import pages

FETCHED = re.compile(
    r"""(?:<(?:script|img|iframe|source)[^>]*\ssrc(?:set)?=|<link[^>]*\shref=|url\()["']?([^"')\s>]+)"""
)
"""what a browser loads by itself; a link is followed only by a reader"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx", reason="NO SPHINX: pip install 'dfml[docs]', to build the documentation")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", ".", str(out)]
    built = subprocess.run(command, cwd=pages.ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return out


def test_it_loads_nothing_from_elsewhere_and_all_of_that_is_there(site):
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        for target in FETCHED.findall(file.read_text()):
            if not target.startswith(("data:", "#")):
                assert not re.match(r"(\w+:)?//", target), f"{file.name} loads {target}"
                assert (file.parent / re.sub(r"[?#].*", "", target)).exists(), f"{file.name} misses {target}"


def test_it_opens_with_the_readme_and_has_every_page(site):
    assert "learning to learn from APIs" in (site / "index.html").read_text()
    for page in pages.PAGES:
        assert (site / page.relative_to(pages.ROOT).with_suffix(".html")).exists()
    assert "From apis.toml to a classifier" in (site / "docs" / "tutorial.html").read_text()


def test_it_has_the_help_of_every_command_and_the_docstring_of_every_name(site):
    assert "usage: dfml zoo build" in (site / "docs" / "commands.html").read_text()
    reference = (site / "docs" / "api.html").read_text()
    names = set(re.findall(r'id="dfml\.(?:\w+\.)?(\w+)"', reference))
    assert set(dfml.__all__) - {"errors", "events"} <= names
    classifier = set(re.findall(r'id="dfml\.FewShotClassifier\.(\w+)"', reference))
    assert {name for name in dir(dfml.FewShotClassifier) if not name.startswith("_")} <= classifier
