"""What a studio opens, judges and keeps, without a browser."""

import shutil

import numpy as np
import pytest

from dfml import Initialisation
from dfml.cli import main
from dfml.data.support import read_support
from dfml.errors import ConfigError
from dfml.play.album import Album
from dfml.play.keeping import keep, take_up
from dfml.play.studio import open_studio
from play.played import COLOURS, coloured

ODD = ("a/b", "..", ".hidden", "__x", "50 % off", "C:\\x", "Käse 🧀", "x" * 60, "trailing.")


@pytest.fixture
def album():
    album = Album((3, 16, 16))
    yield album
    album.close()


def add(album, colour, seed, into=None):
    number = album.next_number()
    (album.folder / str(number)).write_bytes(coloured(colour, seed))
    album.add(album.read(number, f"{colour}.png"), into)
    return number


def test_classes_of_any_name_come_back_with_their_pictures(album, tmp_path):
    for place, name in enumerate(ODD):
        add(album, "red", place, album.add_class(name))
    keep(album.view(), tmp_path / "clf")
    _, labels = read_support(tmp_path / "clf" / "pictures", size=16, channels=3)
    assert len(labels) == len(set(labels)) == len(ODD), "and dfml adapt reads them"
    again = Album((3, 16, 16))
    assert take_up(again, tmp_path / "clf" / "pictures") == []
    view, before = again.view(), album.view()
    again.close()
    assert set(view.named_labels) == set(ODD)
    kept = dict(zip(before.named_labels, before.examples, strict=True))
    for name, picture in zip(view.named_labels, view.examples, strict=True):
        assert np.array_equal(picture.pixels, kept[name].pixels), "pixel by pixel, or APIs would be paid again"


def test_what_is_saved_again_replaces_what_was(album, tmp_path):
    first, second = album.add_class("a"), album.add_class("b")
    old = add(album, "red", 0, first)
    add(album, "blue", 0, second)
    keep(album.view(), tmp_path)
    album.remove(old)
    add(album, "green", 0, first)
    keep(album.view(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures"]
    assert len(list((tmp_path / "pictures" / "a").iterdir())) == 1


def test_names_of_classes_differ_and_are_never_empty(album):
    number = album.add_class("cat")
    with pytest.raises(ConfigError, match="already"):
        album.add_class(" cat ")
    with pytest.raises(ConfigError, match="needs a name"):
        album.rename(number, "  \n ")
    album.rename(number, "cat")
    assert album.classes[album.add_class()] == "class 1"


def test_a_class_that_is_removed_leaves_its_pictures_to_be_tried(album):
    number = album.add_class("cat")
    picture = add(album, "red", 0, number)
    version = album.version
    album.remove_class(number)
    assert album.class_of(picture) is None
    assert [p.number for p in album.view().new] == [picture]
    assert album.version > version
    with pytest.raises(ConfigError, match="this class is gone"):
        album.move(picture, number)


def test_names_do_not_change_what_is_judged(run_folder, tmp_path):
    studio = open_studio(run_folder, out=tmp_path / "clf")
    first, second = studio.album.classes
    for seed in range(2):
        add(studio.album, "red", seed, first)
        add(studio.album, "blue", seed, second)
    new = add(studio.album, "blue", 9)
    before = studio.judge.judge(studio.album.view())
    studio.album.rename(second, "a name that sorts first")
    assert studio.judge.judge(studio.album.view()) is before
    said = before.said[new]
    assert before.classes[int(said.argmax())] == second
    view = studio.album.view()
    truth = Initialisation.load(run_folder).adapt(np.stack([p.pixels for p in view.examples]), view.labels)
    assert np.allclose(said, truth.predict_proba(studio.album.pictures[new].pixels[None])[0])
    assert [number for number, _ in studio.judge.nearest(view, view.examples[0])] != [view.examples[0].number]
    studio.close()


def test_pictures_in_folders_are_there_from_the_start_and_broken_ones_are_told(run_folder, tmp_path):
    for colour in COLOURS:
        (tmp_path / "photos" / colour).mkdir(parents=True)
        (tmp_path / "photos" / colour / "1.png").write_bytes(coloured(colour, 0))
    (tmp_path / "photos" / "red" / "2.png").write_bytes(b"broken")
    studio = open_studio(run_folder, out=tmp_path / "clf", support=tmp_path / "photos")
    assert sorted(studio.album.view().named_labels) == sorted(COLOURS)
    assert studio.notes[0].startswith("2.png cannot be read as a picture")
    studio.close()


def test_what_cannot_be_played_with_gets_one_sentence(run_folder, tmp_path, capsys):
    shutil.copytree(run_folder, tmp_path / "run")
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "thesis.tex").touch()
    for arguments, sentence in (
        ([str(tmp_path / "nowhere")], "nowhere"),
        ([str(tmp_path / "run"), "--support", str(tmp_path / "none")], "is no folder"),
        ([str(tmp_path / "run"), "--out", str(tmp_path / "else")], "holds other files"),
        ([str(tmp_path / "run"), "--port", "99999"], "cannot listen at port 99999"),
        ([str(tmp_path / "run"), "--ask", str(tmp_path / "no.toml")], "no.toml"),
    ):
        assert main(["play", *arguments, "--no-browser"]) == 1
        said = capsys.readouterr()
        assert sentence in said.err
        assert len(said.err.splitlines()) == 1
        assert said.out == ""
