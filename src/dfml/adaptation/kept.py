"""Pictures that APIs were asked about while predicting, kept at the student's size with all that was said of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dfml.adaptation.asking import Outcome
from dfml.apis.blackbox import fit_to
from dfml.files import load_tensors, save_tensors
from dfml.methods.chorus.asking import AnswerTable
from dfml.nets import NetSpec

KIND, VERSION = "kept pictures", 1
FOLDER = "kept"


@dataclass(frozen=True)
class KeptPictures:
    """The pictures of one batch of predictions."""

    images: Tensor  # uint8 (n, c, s, s)
    answers: dict[str, tuple[Tensor, Tensor]]  # by API: rows (j,) and answers (j, K)


def keep(folder: Path, images: Tensor, outcome: Outcome, spec: NetSpec) -> int:
    """Keep those of the `images`, float (n, c, h, w) in [0, 1], that an API answered about; how many these are."""
    rows = outcome.asked.any(1).nonzero().squeeze(1)
    if len(rows) == 0:
        return 0
    small = fit_to(images[rows], (spec.channels, spec.size, spec.size)).mul(255).round().to(torch.uint8)
    place = torch.full((len(images),), -1).index_put_((rows,), torch.arange(len(rows)))
    tensors = {"images": small}
    names = list(outcome.answers)
    for number, (told, probs) in enumerate(outcome.answers.values()):
        tensors |= {f"{number}.rows": place[told], f"{number}.probs": probs.half()}
    target = folder / FOLDER
    target.mkdir(parents=True, exist_ok=True)
    number = len(list(target.glob("*.safetensors")))
    save_tensors(target / f"{number:05d}.safetensors", tensors, kind=KIND, version=VERSION, about={"apis": names})
    return len(rows)


def read_kept(folder: Path) -> Iterator[KeptPictures]:
    """Every batch that `keep` wrote, in order."""
    for path in sorted((folder / FOLDER).glob("*.safetensors")):
        tensors, about = load_tensors(path, kind=KIND, version=VERSION)
        answers = {
            name: (tensors[f"{number}.rows"], tensors[f"{number}.probs"].float())
            for number, name in enumerate(about["apis"])
        }
        yield KeptPictures(tensors["images"], answers)


def as_table(kept: Sequence[KeptPictures]) -> AnswerTable:
    """All kept pictures with all answers about them; a picture that was kept twice counts twice."""
    ways: dict[str, int] = {}
    for batch in kept:
        ways |= {name: probs.shape[1] for name, (_, probs) in batch.answers.items()}
    count, names = sum(len(batch.images) for batch in kept), list(ways)
    probs = torch.zeros(count, len(names), max(ways.values()))
    asked = torch.zeros(count, len(names), dtype=torch.bool)
    start = 0
    for batch in kept:
        for name, (rows, told) in batch.answers.items():
            column = names.index(name)
            probs[start + rows, column, : ways[name]] = told
            asked[start + rows, column] = True
        start += len(batch.images)
    images = torch.cat([batch.images for batch in kept])
    return AnswerTable(images, probs, asked, torch.tensor([ways[name] for name in names]))
