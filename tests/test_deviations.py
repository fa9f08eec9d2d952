"""docs/deviations.md names fields that exist, and tells what the presets set them to."""

import re
from pathlib import Path

from dfml.config import to_mapping
from dfml.methods.bidf_mkd.settings import PRESETS

PAGE = (Path(__file__).parents[1] / "docs" / "deviations.md").read_text()
GROUPS = to_mapping(PRESETS["default"])


def shown(value):
    """As the page writes it."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}".replace("e-0", "e-")
    return str(value)


def values(field):
    group, key = field.split(".")
    return [shown(to_mapping(preset)[group].get(key)) for preset in PRESETS.values()]


def test_every_field_it_names_exists():
    named = re.findall(r"`([a-z_]+)\.([a-z_]+)`", PAGE)
    fields = {(group, key) for group, key in named if group in GROUPS}
    assert len(fields) > 20
    known = {
        (group, key) for preset in PRESETS.values() for group, table in to_mapping(preset).items() for key in table
    }
    assert fields <= known


def test_the_presets_have_the_values_it_tells_and_differ_in_nothing_else():
    rows = re.findall(r"^\| `([a-z_.]+)` \| (\S+) \| (\S+) \| (\S+) \|$", PAGE, re.MULTILINE)
    assert {field: told for field, *told in rows} == {field: values(field) for field, *_ in rows}
    every = {
        f"{group}.{key}" for preset in PRESETS.values() for group, table in to_mapping(preset).items() for key in table
    }
    assert {field for field, *_ in rows} == {field for field in every if len(set(values(field))) > 1}
