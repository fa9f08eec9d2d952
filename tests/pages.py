"""What a reader finds on the pages of the documentation; not a test itself."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - {ROOT / "CHANGELOG.md"})
"""all but the changelog, which may speak of what is no more"""


class Block(NamedTuple):
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    text: str


def blocks(*languages: str) -> list[Block]:
    """Every block of all pages in one of these languages."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(str(page.relative_to(ROOT)), line, match[1], match[2]))
    return [block for block in found if block.language in languages]


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Where a shell block calls `program`, and with which arguments."""
    for block in blocks("sh", "bash", "console"):
        for number, line in enumerate(block.text.replace("\\\n", "  ").splitlines()):
            lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            for words in _between_operators(lexer):
                if words and words[0] == program:
                    yield f"{block.page}:{block.line + 1 + number}", words[1:]


def _between_operators(words: Iterator[str]) -> Iterator[list[str]]:
    """`a b && c > d` as [a, b] and [c]; what follows < or > is a file."""
    command: list[str] = []
    for word in words:
        if word in ("&&", "||", "|", ";", "&"):
            yield command
            command = []
        elif word in (">", ">>", "<", "2>"):
            next(words)
        else:
            command.append(word)
    yield command


def mentions() -> Iterator[tuple[str, list[str]]]:
    """Where running text shows a command as `dfml ...`, and its words."""
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for command in re.findall(r"`dfml ([^`]+)`", line):
                yield f"{page.relative_to(ROOT)}:{number}", command.split()


def links() -> Iterator[tuple[Path, str, str]]:
    """Every link to a place of this repository: the page it is on, the path as written, and the heading or ''."""
    for page in PAGES:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if not re.match(r"[a-z]+:", target):
                path, _, heading = target.partition("#")
                yield page, path, heading


def headings(page: Path) -> set[str]:
    """The addresses that GitHub gives the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
