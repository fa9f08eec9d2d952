"""The task memory (sub:memory): a first-in-first-out bank of recovered images, and new tasks drawn across it."""

from collections import deque
from typing import Literal, NamedTuple, get_args

import torch
from torch import Generator, Tensor

from dfml.episode import Episode, EpisodeSpec
from dfml.errors import ConfigError
from dfml.recovery.recovered import ClassKey, RecoveredSet

Part = Literal["support", "query"]
"""which set of a visit images come from"""
PARTS: tuple[Part, ...] = get_args(Part)


class Entry(NamedTuple):
    """The images of one class out of one recovered set."""

    part: Part
    images: Tensor  # (m, c, h, w) uint8
    probs: Tensor  # (m, k) what the API said of them
    classes: tuple[ClassKey, ...]  # the k columns of `probs`


class TaskMemory:
    """The last `capacity_per_class` recovered sets of every class.

    A class is (API, name). Nothing says that two APIs mean the same by one name, so an interpolated task may hold the
    same true class twice; `merge_by_name` pools classes of one name where the names can be trusted. (The released code
    merges by the true ids of the data set, which no stranger's API tells.)

    The bank is in main memory, wherever recovery computes: it is large, and a task taken from it is small.
    Images are filed under the class they were recovered for. With `require_agreement` an image that the API itself does
    not give that class is not filed at all: its label would be wrong. With `roles` support sets come from support
    sets and query sets from query sets, as sub:memory has it; without, both from whatever there is of a class.
    """

    def __init__(
        self,
        *,
        capacity_per_class: int = 20,
        merge_by_name: bool = False,
        require_agreement: bool = True,
        roles: bool = False,
    ) -> None:
        if capacity_per_class < 1:
            raise ConfigError(f"a memory needs a capacity of at least 1 set a class, got {capacity_per_class}")
        self.capacity_per_class = capacity_per_class
        self.merge_by_name = merge_by_name
        self.require_agreement = require_agreement
        self.roles = roles
        self._bank: dict[str, deque[Entry]] = {}  # in the order of first arrival: sampling depends on it

    @property
    def counts(self) -> dict[str, int]:
        """How many images each class has; a class is called `name` if merged, else `api/name`."""
        return {label: sum(len(entry.images) for entry in entries) for label, entries in self._bank.items()}

    def add(self, recovered: RecoveredSet, part: Part = "support") -> int:
        """File a recovered set as one `part` of its visit; the oldest set of a full class makes room.

        Returns the number of images filed.
        """
        recovered = recovered.on("cpu")
        self._check_shape(recovered.images)
        images = (recovered.images.detach() * 255).round().clamp(0, 255).to(torch.uint8)
        right = recovered.probs.argmax(1) == recovered.targets
        filed = 0
        for target, key in enumerate(recovered.classes):
            chosen = recovered.targets == target
            if self.require_agreement:
                chosen = chosen & right
            if bool(chosen.any()):
                entry = Entry(part, images[chosen], recovered.probs[chosen].detach(), recovered.classes)
                self._shelf(key).append(entry)
                filed += len(entry.images)
        return filed

    def ready(self, spec: EpisodeSpec) -> bool:
        """Whether a task of this shape can be drawn: at least `way` classes hold images enough."""
        return len(self._drawable(spec)) >= spec.way

    def sample(self, spec: EpisodeSpec, rng: Generator) -> Episode:
        """An interpolated task: `way` classes drawn over all APIs, in random order, then images of each.

        Support and query are disjoint. Classes with fewer than `shot + query` images are not drawn, nor with `roles`
        those with fewer than `shot` in support sets or `query` in query sets.
        """
        drawable = self._drawable(spec)
        if len(drawable) < spec.way:
            each = f"{spec.shot} support and {spec.query} query" if self.roles else f"{spec.shot + spec.query}"
            raise ConfigError(
                f"the memory has {len(drawable)} classes with {each} images or more, and a task needs {spec.way}; "
                "recover more images, or ask for fewer ways, shots or queries"
            )
        labels = [drawable[i] for i in torch.randperm(len(drawable), generator=rng)[: spec.way].tolist()]
        drawn = torch.stack([self._draw(label, spec, rng) for label in labels]).float() / 255
        numbers = torch.arange(spec.way)
        return Episode(
            support=drawn[:, : spec.shot].flatten(0, 1),
            support_labels=numbers.repeat_interleave(spec.shot),
            query=drawn[:, spec.shot :].flatten(0, 1),
            query_labels=numbers.repeat_interleave(spec.query),
            classes=tuple(labels),
        )

    def _shelf(self, key: ClassKey) -> deque[Entry]:
        label = key.name if self.merge_by_name else f"{key.api}/{key.name}"
        return self._bank.setdefault(label, deque(maxlen=self.capacity_per_class))

    def _drawable(self, spec: EpisodeSpec) -> list[str]:
        if not self.roles:
            return [label for label, count in self.counts.items() if count >= spec.shot + spec.query]
        return [
            label
            for label in self._bank
            if self._count(label, "support") >= spec.shot and self._count(label, "query") >= spec.query
        ]

    def _count(self, label: str, part: Part) -> int:
        return sum(len(entry.images) for entry in self._bank[label] if entry.part == part)

    def _draw(self, label: str, spec: EpisodeSpec, rng: Generator) -> Tensor:
        """Images of one class (shot + query, c, h, w)."""
        entries = self._bank[label]
        if not self.roles:
            return _some([entry.images for entry in entries], spec.shot + spec.query, rng)
        of_part = {part: [entry.images for entry in entries if entry.part == part] for part in PARTS}
        return torch.cat([_some(of_part["support"], spec.shot, rng), _some(of_part["query"], spec.query, rng)])

    def _check_shape(self, images: Tensor) -> None:
        for entries in self._bank.values():
            expected, got = tuple(entries[0].images.shape[1:]), tuple(images.shape[1:])
            if expected != got:
                raise ConfigError(f"the memory holds images of shape {expected}, got {got}; recover all at one size")
            return


def _some(groups: list[Tensor], count: int, rng: Generator) -> Tensor:
    """`count` images out of all groups, none twice."""
    images = torch.cat(groups)
    return images[torch.randperm(len(images), generator=rng)[:count]]
