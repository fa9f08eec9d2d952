"""Images that came out of APIs, as a page shows them: each with what its API says of it."""

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from dfml.errors import ArtifactError
from dfml.recovery.recovered import RecoveredSet

APIS, CLASSES, IMAGES = 12, 10, 4
"""how many APIs, classes of each and images of each class a page shows: a few hundred small images at most"""


@dataclass(frozen=True)
class Picture:
    """One image and its API's answer."""

    source: str  # a data URI
    size: int  # pixels of a side
    wanted: str  # the class it was made or chosen for
    answer: str  # the class that the API gives it
    share: float  # how sure the API is of `answer`

    @property
    def agrees(self) -> bool:
        return self.wanted == self.answer


@dataclass(frozen=True)
class Shelf:
    """The images of one API, class by class."""

    api: str
    classes: tuple[tuple[str, tuple[Picture, ...]], ...]
    left_out: int  # classes that are not shown


def shelves(folder: Path) -> tuple[list[Shelf], int]:
    """The images of some APIs, evenly spread over all that `folder` holds sets of; and how many APIs those are."""
    newest: dict[str, RecoveredSet] = {}
    for recovered in _sets(folder):
        newest[recovered.classes[0].api] = recovered
    names = sorted(newest)
    shown = min(APIS, len(names))
    return [_shelf(newest[names[i * len(names) // shown]]) for i in range(shown)], len(names)


def _sets(folder: Path) -> Iterator[RecoveredSet]:
    for path in sorted(folder.glob("*.safetensors")):
        if path.stem.endswith("-query"):
            continue  # made to lie between two classes: not what a class looks like
        try:
            recovered = RecoveredSet.load(path)
        except ArtifactError:
            continue  # a run that is being written, or somebody else's file
        if recovered.classes and len(recovered.images):
            yield recovered


def _shelf(recovered: RecoveredSet) -> Shelf:
    targets = recovered.targets.unique().tolist()
    rows = tuple((recovered.classes[target].name, _pictures(recovered, target)) for target in targets[:CLASSES])
    return Shelf(recovered.classes[0].api, rows, len(recovered.classes) - len(rows))


def _pictures(recovered: RecoveredSet, target: int) -> tuple[Picture, ...]:
    """Those that the API is surest of."""
    mine = (recovered.targets == target).nonzero().flatten()
    best = mine[recovered.probs[mine, target].argsort(descending=True, stable=True)][:IMAGES]
    names: Sequence[str] = [key.name for key in recovered.classes]
    return tuple(
        Picture(
            source=data_uri(recovered.images[row]),
            size=recovered.images.shape[-1],
            wanted=names[target],
            answer=names[int(recovered.probs[row].argmax())],
            share=recovered.probs[row].max().item(),
        )
        for row in best.tolist()
    )


def data_uri(image: Tensor) -> str:
    """An image (1 or 3, h, w) in [0, 1] as a PNG inside its own address."""
    pixels = (image * 255).round().clamp(0, 255).to(torch.uint8)
    drawn = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy() if len(pixels) == 3 else pixels[0].numpy())
    file = io.BytesIO()
    drawn.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
