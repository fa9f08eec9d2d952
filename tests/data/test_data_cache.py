import os
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from dfml.data import channel_statistics, open_dataset
from dfml.data.cache import cache_folder, cached
from dfml.errors import DataError


@dataclass
class Random:
    """Two classes of random pixels, which counts how often it is decoded."""

    key: str = "0"
    name: str = "random"
    part: str = "train"
    classes: tuple[str, ...] = ("a", "b")
    counts: tuple[int, ...] = (3, 5)
    shape: tuple[int, int, int] = (3, 4, 4)
    decoded: int = 0
    dies_after: int = 99

    @property
    def pixels(self) -> np.ndarray:
        return np.random.default_rng(0).integers(0, 256, (8, 3, 4, 4), dtype=np.uint8)

    def batches(self) -> Iterator[np.ndarray]:
        self.decoded += 1
        for number, start in enumerate(range(0, 8, 2)):
            if number == self.dies_after:
                raise KeyboardInterrupt
            yield self.pixels[start : start + 2]


def test_classes_come_back_as_they_were_written():
    source = Random()
    images = cached(source)
    assert (images.images(0) == source.pixels[:3]).all()
    assert (images.images(1) == source.pixels[3:]).all()
    assert (images.images(-1) == source.pixels[3:]).all()
    with pytest.raises(IndexError):
        images.images(2)
    assert isinstance(images.images(0), np.memmap)
    assert not images.images(0).flags.writeable


def test_tensors_are_in_the_unit_interval_and_chosen_by_index():
    source = Random()
    images = cached(source)
    expected = torch.from_numpy(source.pixels[3:].astype(np.float32)) / 255
    assert torch.equal(images.tensor(1), expected)
    assert torch.equal(images.tensor(1, [4, 0]), expected[[4, 0]])
    assert torch.equal(images.tensor(1, torch.tensor([2, 2])), expected[[2, 2]])
    images.tensor(1).zero_()  # a copy: what a caller does to it stays with the caller
    assert torch.equal(images.tensor(1), expected)


def test_decoding_happens_once_for_each_key():
    source = Random()
    cached(source)
    cached(source)
    assert source.decoded == 1
    other = Random(key="1")
    cached(other)
    assert other.decoded == 1


def test_a_crash_leaves_nothing_that_is_taken_for_finished(cache):
    with pytest.raises(KeyboardInterrupt):
        cached(Random(dies_after=2))
    assert list(cache.iterdir()) == []
    source = Random()
    assert (cached(source).images(0) == source.pixels[:3]).all()


@pytest.mark.parametrize("damage", ["index lost", "index rubbish", "pixels lost", "pixels cut"])
def test_damage_is_noticed_and_repaired(cache, damage):
    images = cached(Random())
    index = images.path.with_suffix(".json")
    match damage:
        case "index lost":
            index.unlink()
        case "index rubbish":
            index.write_text("{")
        case "pixels lost":
            images.path.unlink()
        case "pixels cut":
            images.path.write_bytes(images.path.read_bytes()[:-1])
    source = Random()
    assert (cached(source).images(1) == source.pixels[3:]).all()
    assert source.decoded == 1


def test_what_killed_processes_left_is_swept_after_a_day_and_no_sooner(cache):
    cache.mkdir()
    old, young = cache / ".part-old", cache / ".part-young"
    for file in (old, young):
        file.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * 86_400,) * 2)
    cached(Random())
    assert not old.exists()
    assert young.exists()


def test_progress_is_told():
    told: list[tuple[int, int]] = []
    cached(Random(), on_progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 8), (4, 8), (6, 8), (8, 8)]


def test_where_the_cache_lives(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DFML_CACHE", "~/here")
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("DFML_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "dfml"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / ".cache" / "dfml"


def test_a_cache_that_cannot_be_written_is_a_sentence(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DFML_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot write .*set DFML_CACHE to a folder with 0 MB free"):
        cached(Random())


def test_changed_data_are_decoded_again(cifar_fs):
    before = open_dataset("cifar-fs", "train", data=cifar_fs)
    again = open_dataset("cifar-fs", "train", data=cifar_fs)
    assert before == again
    changed = cifar_fs / "data" / "c2" / "0.png"
    changed.write_bytes((cifar_fs / "data" / "c4" / "2.png").read_bytes())
    os.utime(changed, (1, 1))
    after = open_dataset("cifar-fs", "train", data=cifar_fs)
    assert before.images(0)[0, 0, 0, 0] == 20
    assert after.images(0)[0, 0, 0, 0] == 42


def test_nothing_is_written_into_the_data_folder(cifar_fs):
    def listing() -> list[tuple[Path, int]]:
        return sorted((path, path.stat().st_mtime_ns) for path in cifar_fs.rglob("*"))

    before = listing()
    for path in [*cifar_fs.rglob("*"), cifar_fs]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    images = open_dataset("cifar-fs", "train", data=cifar_fs)
    assert not images.path.is_relative_to(cifar_fs)
    assert listing() == before
    for path in [cifar_fs, *cifar_fs.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_an_image_set_travels_to_other_processes():
    images = cached(Random())
    copy = pickle.loads(pickle.dumps(images))
    assert copy == images
    assert (copy.images(1) == images.images(1)).all()
    assert len(pickle.dumps(images)) < 2000  # the handle, not the pixels


def test_channel_statistics_are_mean_and_deviation():
    source = Random()
    mean, std = channel_statistics(cached(source))
    values = source.pixels / 255
    assert mean == pytest.approx(values.mean((0, 2, 3)))
    assert std == pytest.approx(values.std((0, 2, 3)))


def test_channel_statistics_of_a_sample_take_images_evenly():
    source = Random()
    mean, _ = channel_statistics(cached(source), sample=4)
    assert mean == pytest.approx((source.pixels[::2] / 255).mean((0, 2, 3)))
