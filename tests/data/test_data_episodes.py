from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from dfml.data import ImageSet, episodes, sample_episode
from dfml.episode import EpisodeSpec
from dfml.errors import DataError
from dfml.rng import stream


@pytest.fixture
def images(tmp_path) -> ImageSet:
    """Eight classes of 20 images; pixel (0, 0) is the class, pixel (0, 1) the image."""
    pixels = np.zeros((160, 1, 2, 2), dtype=np.uint8)
    pixels[:, 0, 0, 0], pixels[:, 0, 0, 1] = np.divmod(np.arange(160), 20)
    np.save(tmp_path / "images.npy", pixels)
    return ImageSet(
        name="toy",
        part="train",
        classes=tuple("abcdefgh"),
        counts=(20,) * 8,
        shape=(1, 2, 2),
        path=tmp_path / "images.npy",
    )


def whose(batch: torch.Tensor) -> list[tuple[int, int]]:
    """(class, image) of each image, from its pixels."""
    values = (batch * 255).round().long()
    return list(zip(values[:, 0, 0, 0].tolist(), values[:, 0, 0, 1].tolist(), strict=True))


def test_labels_names_and_pixels_agree(images, rng):
    task = sample_episode(images, EpisodeSpec(way=3, shot=2, query=4), rng)
    assert task.support_labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert task.query_labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    for batch, labels in ((task.support, task.support_labels), (task.query, task.query_labels)):
        assert ["abcdefgh"[c] for c, _ in whose(batch)] == [task.classes[label] for label in labels]
    assert len(set(task.classes)) == 3


def test_no_image_serves_twice(images, rng):
    task = sample_episode(images, EpisodeSpec(way=8, shot=5, query=15), rng)
    assert len(set(whose(task.support) + whose(task.query))) == 160


def test_task_t_depends_on_seed_and_t_alone(images):
    spec = EpisodeSpec(way=3, shot=1, query=2)
    tasks = list(episodes(images, spec, 5, seed=3))
    alone = sample_episode(images, spec, stream(3, "episode", 4))
    assert torch.equal(tasks[4].support, alone.support)
    assert tasks[4].classes == alone.classes
    assert [task.classes for task in episodes(images, spec, 2, seed=3)] == [task.classes for task in tasks[:2]]
    assert len({task.classes for task in episodes(images, spec, 20, seed=4)}) > 10


def test_classes_and_images_are_drawn_evenly(images):
    spec = EpisodeSpec(way=2, shot=1, query=1)
    tasks = list(episodes(images, spec, 2000, seed=0))
    classes = Counter(name for task in tasks for name in task.classes)
    # 4000 draws over 8 classes: 500 each, with a deviation of sqrt(2000 * 1/4 * 3/4) = 19
    assert all(abs(classes[name] - 500) < 5 * 19 for name in "abcdefgh")
    shots = Counter(image for task in tasks for _, image in whose(task.support))
    # 4000 draws over 20 images: 200 each, with a deviation of 14
    assert all(abs(shots[image] - 200) < 5 * 14 for image in range(20))


def test_too_few_classes(images):
    message = "toy: the train part has 8 classes but a 9-way task needs 9"
    with pytest.raises(DataError, match=message):
        sample_episode(images, EpisodeSpec(way=9), stream(0))
    with pytest.raises(DataError, match=message):
        episodes(images, EpisodeSpec(way=9), 1, seed=0)  # at once, not at the first task


def test_too_few_images_name_the_class_and_the_numbers(images):
    few = replace(images, counts=(20, 20, 19, 20, 20, 20, 20, 20))
    with pytest.raises(DataError, match="class 'c' of train has 19 images but 5 shots and 15 queries need 20"):
        sample_episode(few, EpisodeSpec(), stream(0))
