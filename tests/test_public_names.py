"""What `dfml` gives at the top level is what docs/api.md says it gives, and costs nothing until it is used."""

import re
import subprocess
import sys
from pathlib import Path

import dfml
from dfml import errors, events

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "api.md").read_text()


def test_the_page_and_the_package_name_the_same():
    listed = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) | {"errors", "events"}
    assert listed == set(dfml.__all__)
    assert sorted(dfml.__all__) == dfml.__all__


def test_every_name_can_be_had_and_explains_itself():
    for name in dfml.__all__:
        assert getattr(dfml, name).__doc__, f"{name} has no docstring"
        assert name in dir(dfml)


def test_every_event_is_on_the_page():
    kinds = {kind.__name__ for kind in events.Event.__subclasses__()}
    assert kinds == {name for name in kinds if f"`{name}`" in PAGE}


def test_every_error_is_one_of_ours():
    ours = [getattr(dfml, name) for name in dfml.__all__ if isinstance(getattr(dfml, name), type)]
    raised = [kind for kind in ours if issubclass(kind, Exception)]
    assert len(raised) == 10
    assert all(issubclass(kind, errors.DfmlError) for kind in raised)


def test_importing_loads_no_torch():
    code = "import sys, dfml; dir(dfml); dfml.DfmlError; dfml.events; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_version_is_written_once():
    """The package says it; the build reads it there."""
    assert 'path = "src/dfml/__init__.py"' in (ROOT / "pyproject.toml").read_text()
    wherever = [
        path
        for path in [*ROOT.glob("*.toml"), *ROOT.glob("*.cff"), *(ROOT / "src").rglob("*.py")]
        if re.search(r"^_{0,2}version_{0,2}\s*[=:]\s*\"\d", path.read_text(), re.MULTILINE)
    ]
    assert wherever == [ROOT / "src" / "dfml" / "__init__.py"]
