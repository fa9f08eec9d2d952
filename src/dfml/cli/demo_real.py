"""`dfml demo --real`: a live classifier over a real network, on pictures of the user's own or on scikit-image's."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

QUERIES, STEPS, SEED = 400, 300, 0
MOST_SHOTS = 5
SHARES = (0.0, 0.3, 1.0)
SHIPPED = {
    "astronaut": "astronaut.png",
    "cat": "chelsea.png",
    "coffee": "coffee.png",
    "motorcycle": "motorcycle_left.png",
    "rocket": "rocket.jpg",
}
"""photographs in scikit-image's package: nothing is downloaded"""
WINDOWS, SHARE = 12, 0.4
"""views of each photograph, and the part of its shorter side that one shows"""


def run(args: argparse.Namespace) -> None:
    from rich.markup import escape

    from dfml.adaptation.classifier import FewShotClassifier
    from dfml.cli.drawing import console, table
    from dfml.cli.learn import LearningProgress
    from dfml.data.cache import cache_folder
    from dfml.learning import learn
    from dfml.words import percent
    from dfml.zoo.lite0 import SIZE, write_lite0

    out: Path = args.out
    console.print("[bold]1. EfficientNet-Lite0[/bold], a network of 1,000 classes that nobody here trained, as an API")
    manifest = write_lite0(out, cache=cache_folder())
    images, labels = _read(args.pictures, SIZE) if args.pictures else _shipped(SIZE)
    support, query = _split(labels)

    console.print(f"\n[bold]2. A student learns from {QUERIES} of its answers[/bold] about pictures drawn from nothing")
    with LearningProgress() as progress:
        settings = [f"distil.steps={STEPS}"]
        init = learn(
            manifest, out / "run", budget=QUERIES, settings=settings, seed=SEED, resume=True, on_event=progress.show
        )

    names = sorted(set(labels))
    console.print(f"\n[bold]3. {len(names)} classes of pictures[/bold]: {escape(', '.join(names))}")
    console.print(f"{len(support)} of them are the examples, the other {len(query)} are judged")
    live = FewShotClassifier(init, apis=manifest, folder=out / "classifier")
    live.fit(images[support], [labels[row] for row in support])
    rows = []
    for share in SHARES:
        told = live.set_params(ask=share).answer(images[query])
        best = told.probabilities.argmax(1).tolist()
        right = sum(str(live.classes_[guess]) == labels[row] for guess, row in zip(best, query, strict=True))
        rows.append((f"{share:g}", f"{int(told.asked.sum()):,}", percent(right / len(query))))
    console.print(table(("queries a picture", "queries", "recognised"), rows))
    live.save(out / "classifier")
    live.close()
    console.print(
        f"the student answers first; the API is asked where it is least sure. It is in {out / 'classifier'}: "
        f"`dfml predict {out / 'classifier'} IMAGE... --ask 0.3`",
        markup=False,
        soft_wrap=True,
    )


def _read(folder: Path, size: int) -> "tuple[Tensor, list[str]]":
    from dfml.data.support import read_support

    return read_support(folder, size=size, channels=3)


def _split(labels: list[str]) -> tuple[list[int], list[int]]:
    """Places of the examples, half of each class and five at most, and of the pictures to judge."""
    from dfml.errors import DataError

    support, query = list[int](), list[int]()
    for name in sorted(set(labels)):
        own = [place for place, label in enumerate(labels) if label == name]
        if len(own) < 2:
            raise DataError(f"class {name!r} has one picture; put at least two there, one to learn and one to judge")
        shots = min(MOST_SHOTS, len(own) // 2)
        support += own[:shots]
        query += own[shots:]
    return support, query


def _shipped(size: int) -> "tuple[Tensor, list[str]]":
    """Windows of scikit-image's photographs, as uint8 (n, 3, size, size); each photograph is a class."""
    import importlib.util

    import numpy as np
    import torch
    from PIL import Image

    from dfml.errors import ConfigError
    from dfml.rng import stream

    found = importlib.util.find_spec("skimage")
    if found is None or not found.submodule_search_locations:
        raise ConfigError("no pictures: name a folder with --pictures, or pip install 'dfml[real]' for scikit-image's")
    images, labels = [], []
    for name, file in SHIPPED.items():
        with Image.open(Path(found.submodule_search_locations[0]) / "data" / file) as opened:
            whole = opened.convert("RGB")
        side = round(SHARE * min(whole.size))
        places = torch.rand(WINDOWS, 2, generator=stream(SEED, "windows", name))
        for left, top in (places * torch.tensor([whole.width - side, whole.height - side])).int().tolist():
            window = whole.crop((left, top, left + side, top + side)).resize((size, size))
            images.append(torch.from_numpy(np.array(window)).permute(2, 0, 1))
            labels.append(name)
    return torch.stack(images), labels
