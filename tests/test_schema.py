"""The manifest's JSON schema is current, is a schema, and takes what the documentation shows."""

import json
import re
import tomllib

import jsonschema
import pytest

import pages
from dfml.apis.manifest import manifest_schema, read_manifest
from dfml.errors import ConfigError

EXAMPLES = [block.text for block in pages.blocks("toml") if "[apis." in block.text]


@pytest.fixture(scope="module")
def validator():
    schema = manifest_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_schema_in_the_documentation_is_current():
    text = (pages.ROOT / "docs" / "apis.schema.json").read_text()
    assert json.loads(text) == manifest_schema(), "run: dfml apis schema > docs/apis.schema.json"


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_valid_and_can_be_read(validator, tmp_path, example):
    validator.validate(tomllib.loads(example))
    for labels in re.findall(r'labels = "(.*?)"', example):
        (tmp_path / labels).write_text("background\nketch\nsloop\n")
    (tmp_path / "apis.toml").write_text(example)
    entries = read_manifest(tmp_path).entries
    assert entries


def test_there_are_examples():
    assert len(EXAMPLES) >= 5


WRONG = [
    "[apis.x]\nclases = ['a']",
    "[apis.x]\nimage = [3, 32]",
    "[apis.x]\nprotocol = 'telepathy'",
    "[apis.x]\ninput.encoding = 'gif'",
    "[apis.x]\nlimits.rate = 'fast'",
    "[apis.'../x']\nimage = [3, 32, 32]",
    "[api.x]\nimage = [3, 32, 32]",
    "[defaults]\nmodel = 3\n[apis.x]\n",
    "",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_the_manifest_refuses_the_schema_refuses(validator, tmp_path, text):
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(tomllib.loads(text))
    (tmp_path / "apis.toml").write_text(text)
    with pytest.raises(ConfigError):
        read_manifest(tmp_path)


def test_every_key_explains_itself():
    entry = manifest_schema()["properties"]["apis"]["additionalProperties"]
    groups = [entry, *(entry["properties"][name] for name in ("input", "output", "limits"))]
    assert [key for group in groups for key, value in group["properties"].items() if not value.get("description")] == []
