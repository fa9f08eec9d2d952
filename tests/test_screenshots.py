"""Screenshots of the documents are there, small, and made by their script."""

import re
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent
SHOTS = sorted((ROOT / "docs" / "screenshots").glob("*.png"))


@pytest.mark.parametrize("file", SHOTS, ids=lambda file: file.name)
def test_every_screenshot_is_small_shown_somewhere_and_made_by_the_script(file):
    with Image.open(file) as image:
        assert image.format == "PNG"
    assert file.stat().st_size < 200_000
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(f"screenshots/{file.name}" in page.read_text() for page in pages)
    assert f'"{file.name}"' in (ROOT / "docs" / "screenshots" / "make.py").read_text()


def test_every_picture_that_the_readme_shows_is_there():
    shown = re.findall(r'(?:src|srcset)="([^"]+)"|!\[[^\]]*\]\(([^)]+)\)', (ROOT / "README.md").read_text())
    assert len(shown) >= 3
    assert all((ROOT / (first or second)).is_file() for first, second in shown)
