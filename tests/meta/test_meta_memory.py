"""The task memory: who is kept, who is drawn, and what survives a file."""

import pytest
import torch

from dfml.episode import EpisodeSpec
from dfml.errors import ConfigError
from dfml.meta.memory import TaskMemory
from dfml.recovery.recovered import ClassKey, RecoveredSet
from dfml.rng import stream

SPEC = EpisodeSpec(way=2, shot=1, query=2)


def recovered(api: str, names: str, level: int, *, per_class: int = 3, wrong: tuple[int, ...] = ()) -> RecoveredSet:
    """A set whose images are grey of level `level` + class; the API gives those at `wrong` the next class."""
    k = len(names)
    targets = torch.arange(k).repeat_interleave(per_class)
    said = targets.clone()
    said[list(wrong)] = (said[list(wrong)] + 1) % k
    images = ((level + targets) / 255).view(-1, 1, 1, 1).expand(-1, 1, 2, 2).clone()
    probs = 0.7 * torch.nn.functional.one_hot(said, k) + 0.3 / k
    return RecoveredSet(images, targets, probs, tuple(ClassKey(api, name) for name in names), queries=0)


def levels(images: torch.Tensor) -> list[int]:
    return sorted({int(v) for v in (images * 255).round().flatten().tolist()})


def test_the_oldest_sets_of_a_class_leave_first():
    memory = TaskMemory(capacity_per_class=2)
    for level in (10, 20, 30):
        memory.add(recovered("one", "ab", level))
    assert memory.counts == {"one/a": 6, "one/b": 6}
    seen = torch.cat([memory.sample(EpisodeSpec(way=2, shot=3, query=3), stream(i)).support for i in range(8)])
    assert levels(seen) == [20, 21, 30, 31]


def test_images_are_rounded_to_eight_bits_not_cut_off():
    one = recovered("one", "ab", 0)
    one.images[:] = torch.linspace(0, 1, one.images.numel()).view_as(one.images)
    memory = TaskMemory()
    memory.add(one)
    kept = memory_images(memory, "one/a")
    assert torch.equal((kept * 255).round() / 255, kept), "each value is one of 256"
    assert (kept.double() - one.images[:3].double()).abs().max() <= 0.5 / 255 + 1e-7


def memory_images(memory: TaskMemory, label: str) -> torch.Tensor:
    episode = memory.sample(SPEC, stream(0))
    place = episode.classes.index(label)
    images = torch.cat([episode.support[place : place + 1], episode.query[2 * place : 2 * place + 2]])
    order = images.flatten(1).sum(1).argsort()
    return images[order]


def test_images_the_api_gives_another_class_are_not_filed_unless_asked():
    one = recovered("one", "ab", 10, wrong=(0, 4, 5))
    strict, trusting = TaskMemory(), TaskMemory(require_agreement=False)
    assert strict.add(one) == 3
    assert strict.counts == {"one/a": 2, "one/b": 1}
    assert trusting.add(one) == 6
    assert trusting.counts == {"one/a": 3, "one/b": 3}


def test_a_class_with_no_good_image_pushes_nothing_out():
    memory = TaskMemory(capacity_per_class=1)
    memory.add(recovered("one", "ab", 10))
    memory.add(recovered("one", "ab", 20, wrong=(0, 1, 2)))
    seen = memory.sample(SPEC, stream(0))
    assert levels(torch.cat([seen.support, seen.query])) == [10, 21]


def test_one_name_is_two_classes_until_merged():
    apart, merged = TaskMemory(), TaskMemory(merge_by_name=True)
    for memory in (apart, merged):
        memory.add(recovered("one", "ab", 10))
        memory.add(recovered("two", "bc", 50))
    assert apart.counts == {"one/a": 3, "one/b": 3, "two/b": 3, "two/c": 3}
    assert merged.counts == {"a": 3, "b": 6, "c": 3}
    episodes = [merged.sample(EpisodeSpec(way=3, shot=1, query=2), stream(i)) for i in range(20)]
    of_b = torch.cat([e.query[2 * e.classes.index("b") :][:2] for e in episodes])
    assert levels(of_b) == [11, 50]


def test_support_and_query_are_disjoint_and_labels_mean_their_classes():
    memory = TaskMemory()
    one = recovered("one", "abc", 0, per_class=9)
    one.images[:] = (torch.arange(27) / 255).view(-1, 1, 1, 1)  # every image different: 0-8 are a, 9-17 b, 18-26 c
    memory.add(one)
    for seed in range(10):
        episode = memory.sample(EpisodeSpec(way=3, shot=4, query=5), stream(seed))
        support, query = (x[:, 0, 0, 0].mul(255).round().long() for x in (episode.support, episode.query))
        assert sorted([*support.tolist(), *query.tolist()]) == list(range(27))
        assert episode.support_labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
        assert episode.query_labels.tolist() == [0] * 5 + [1] * 5 + [2] * 5
        for image, label in zip([*support, *query], [*episode.support_labels, *episode.query_labels], strict=True):
            assert episode.classes[label] == f"one/{'abc'[image // 9]}"


def test_with_roles_support_comes_from_support_sets_and_queries_from_query_sets():
    memory = TaskMemory(roles=True)
    memory.add(recovered("one", "ab", 10), "support")
    assert not memory.ready(SPEC)
    memory.add(recovered("one", "ab", 50), "query")
    memory.add(recovered("two", "ab", 90), "query")
    assert memory.ready(SPEC)
    for seed in range(20):
        episode = memory.sample(SPEC, stream(seed))
        assert levels(episode.support) == [10, 11]
        assert levels(episode.query) == [50, 51]
    with pytest.raises(ConfigError, match="2 classes with 1 support and 2 query images or more, and a task needs 3"):
        memory.sample(EpisodeSpec(way=3, shot=1, query=2), stream(0))


def test_label_spaces_are_resampled_across_apis():
    memory = TaskMemory()
    memory.add(recovered("one", "ab", 10))
    memory.add(recovered("two", "cd", 50))
    spaces = {memory.sample(SPEC, stream(seed)).classes for seed in range(300)}
    assert len(spaces) == 4 * 3  # every ordered pair, also those that no API knows
    assert memory.sample(SPEC, stream(5)).classes == memory.sample(SPEC, stream(5)).classes


def test_it_says_whether_a_task_can_be_drawn():
    memory = TaskMemory()
    assert not memory.ready(SPEC)
    memory.add(recovered("one", "ab", 10, wrong=(0,)))
    assert not memory.ready(SPEC)
    with pytest.raises(ConfigError, match="1 classes with 3 images or more, and a task needs 2"):
        memory.sample(SPEC, stream(0))
    memory.add(recovered("one", "ab", 10))
    assert memory.ready(SPEC)


def test_images_of_another_size_are_refused():
    memory = TaskMemory()
    memory.add(recovered("one", "ab", 10))
    other = recovered("two", "ab", 10)
    bigger = RecoveredSet(other.images.expand(-1, 3, -1, -1), other.targets, other.probs, other.classes, 0)
    with pytest.raises(ConfigError, match=r"images of shape \(1, 2, 2\), got \(3, 2, 2\)"):
        memory.add(bigger)


def test_a_memory_without_room_is_refused():
    with pytest.raises(ConfigError, match="capacity of at least 1"):
        TaskMemory(capacity_per_class=0)
