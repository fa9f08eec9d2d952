"""The manifest: what it takes, and one sentence for each thing that it does not."""

from pathlib import Path

import pytest

from dfml.apis.manifest import ApiEntry, read_manifest, write_manifest
from dfml.errors import ConfigError
from dfml.zoo.coverage import cover_rate, mean_accuracy

BIRDS = ApiEntry(file="birds.onnx", classes=("gull", "heron"), image=(3, 32, 32), accuracy=0.8, dataset="d")


def written(folder: Path, text: str) -> Path:
    path = folder / "apis.toml"
    path.write_text(text)
    return path


def test_a_manifest_survives_being_written_and_read(tmp_path):
    write_manifest(tmp_path / "zoo.toml", {"birds": BIRDS}, zoo={"config": {"seed": 1}})
    manifest = read_manifest(tmp_path)
    assert (manifest.entries, manifest.zoo) == ({"birds": BIRDS}, {"config": {"seed": 1}})


def test_defaults_are_inherited_and_overridden(tmp_path):
    path = written(
        tmp_path,
        """
        [defaults]
        image = [3, 32, 32]
        classes = ["a", "b"]
        [apis.one]
        [apis.two]
        classes = ["c", "d"]
        """,
    )
    entries = read_manifest(path).entries
    assert entries["one"].classes == ("a", "b")
    assert entries["two"].classes == ("c", "d")
    assert list(entries) == ["one", "two"]


GOOD = "classes = ['a', 'b']\nimage = [3, 32, 32]\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "names no API"),
        ("[apis.x]\nclases = ['a']", "unknown key 'clases'; did you mean 'classes'"),
        ("[apis.x]\nimage = [3, 32, 32]", "classes is missing"),
        (f"[apis.x]\n{GOOD}[apis.x]\n{GOOD}", "names must differ"),
        (f"[apis.x]\n{GOOD}[apis.X]\n{GOOD}", "x and X differ only in case"),
        (f"[apis.'../etc']\n{GOOD}", "'../etc' must be letters"),
        (f"[apis.x]\n{GOOD}image = [1, 2]", "not valid TOML"),
        ("[apis.x]\nclasses = ['a', 'b']\nimage = [32, 32]", "image: expected 3 values, got 2"),
        (f"[apis.x]\n{GOOD}protocol = 'telepathy'", "'telepathy' is not one of"),
        (f"[api.x]\n{GOOD}", r"unknown table \[api\]; did you mean 'apis'"),
        ("[apis.x", "not valid TOML"),
        (f"[[apis]]\n{GOOD}", r"apis should be written as \[apis.birds\], one table an API"),
        (f"defaults = 3\n[apis.x]\n{GOOD}", r"defaults should be written as \[defaults\], a table"),
    ],
)
def test_a_wrong_manifest_gets_one_sentence(tmp_path, text, complaint):
    with pytest.raises(ConfigError, match=complaint) as caught:
        read_manifest(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_manifest_says_where_it_looked(tmp_path):
    with pytest.raises(ConfigError, match=r"holds neither apis\.toml nor zoo\.toml"):
        read_manifest(tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        read_manifest(tmp_path / "nowhere")


def test_cover_rate_counts_each_class_of_each_data_set_once():
    other = ApiEntry(file="o", classes=("heron", "rail"), image=(3, 32, 32), dataset="d")
    entries = {"a": BIRDS, "b": other}
    assert cover_rate(entries, {"train_classes": {"d": 6}}) == 3 / 6
    assert cover_rate(entries, {}) is None
    assert mean_accuracy(entries) == 0.8
