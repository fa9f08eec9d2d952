"""Everything behind one page: a run or a classifier, the album, who judges it, who may be asked, where it is saved."""

import shlex
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from dfml import FewShotClassifier, Initialisation
from dfml.errors import ConfigError
from dfml.play.album import Album, View, pixels
from dfml.play.asking import Asking
from dfml.play.judging import Judge
from dfml.play.keeping import FOLDER, keep, take_up
from dfml.report.story import is_run

PLAYED = "play"
"""where in a run folder a classifier goes that was made from it"""


@dataclass
class Studio:
    """What the page works with."""

    title: str
    folder: Path
    """where the classifier is saved; ledgers are there from the first question on"""
    run: Path | None
    """the run that taught, where it is at hand"""
    initialisation: Initialisation | None
    """None where a finished classifier is tried"""
    album: Album
    judge: Judge
    asking: Asking | None
    silent: str = ""
    """why no API can be asked"""
    notes: tuple[str, ...] = ()
    """what the user should know from the start"""
    saved: bool = False
    """whether there is a classifier in `folder`"""

    @property
    def predict_line(self) -> str:
        """The command that goes on with what was saved."""
        line = f"dfml predict {shlex.quote(str(self.folder))} IMAGE..."
        if self.asking is None or not self.asking.on:
            return line
        return line + " --ask auto" + (f" --budget {self.asking.budget}" if self.asking.budget is not None else "")

    def save(self, view: View) -> None:
        """Write the classifier, and all that is needed to go on with it here."""
        if self.initialisation is None:
            return  # it is there already
        live = self.asking is not None and self.asking.on
        classifier = self.asking.named(view) if self.asking is not None and live else self._named(view)
        classifier.save(self.folder)
        classifier.close()
        self.initialisation.save(self.folder / "init.safetensors")
        keep(view, self.folder)
        self.saved = True

    def onnx(self, view: View) -> bytes:
        """The classifier's network as an ONNX file."""
        if find_spec("onnx") is None:
            raise ConfigError("the package onnx is missing; pip install 'dfml[onnx]' to export")
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "model.onnx"
            self._named(view).export_onnx(file)
            return file.read_bytes()

    def close(self) -> None:
        if self.asking is not None:
            self.asking.close()
        self.album.close()

    def _named(self, view: View) -> FewShotClassifier:
        """The offline classifier with its classes' names."""
        if self.initialisation is None:
            return FewShotClassifier.load(self.folder)
        return self.initialisation.adapt(pixels(view.examples), view.named_labels)


def open_studio(
    path: Path,
    *,
    ask: Path | None = None,
    budget: int | None = None,
    out: Path | None = None,
    support: Path | None = None,
    device: str = "cpu",
) -> Studio:
    """The studio for a run folder, an `init.safetensors` or a classifier's folder.

    A classifier that was saved with its pictures can be taught on; any other can be tried.
    """
    if (path / "classifier.safetensors").is_file():
        return _of_classifier(path, ask=ask, budget=budget, device=device)
    init = Initialisation.load(path)
    place = path if path.is_dir() else path.parent
    folder = out or place / PLAYED
    return _taught(
        init, folder, run=place if is_run(place) else None, ask=ask, budget=budget, support=support, device=device
    )


def _of_classifier(path: Path, *, ask: Path | None, budget: int | None, device: str) -> Studio:
    run = path.resolve().parent if is_run(path.resolve().parent) else None
    classifier = FewShotClassifier.load(path, device=device, ask=0)
    classifier.input_spec  # noqa: B018 - says so where there is no network to play with
    manifest = ask or (Path(classifier.apis) if isinstance(classifier.apis, str | Path) else None)
    if (path / "init.safetensors").is_file() and (path / FOLDER).is_dir():
        init = Initialisation.load(path)
        return _taught(init, path, run=run, ask=manifest, budget=budget, support=None, device=device)
    asking, silent = None, "it was made without APIs"
    if classifier.api_weights_ and manifest is not None:
        asking = Asking(None, manifest, path, budget=budget, device=device)
    album = Album(classifier.image_shape, fixed=[str(name) for name in classifier.classes_.tolist()])
    return Studio(path.resolve().name, path, run, None, album, Judge(_never, classifier), asking, silent)


def _taught(
    init: Initialisation,
    folder: Path,
    *,
    run: Path | None,
    ask: Path | None,
    budget: int | None,
    support: Path | None,
    device: str,
) -> Studio:
    asking = None if ask is None else Asking(init, ask, folder, budget=budget, device=device)
    shapes = [(init.net.channels, init.net.size, init.net.size)]
    shapes += [] if asking is None else [asking.shape]
    channels, heights, widths = zip(*shapes, strict=True)
    album = Album((max(channels), side := max(*heights, *widths), side))
    before = support or folder / FOLDER
    notes = take_up(album, before) if before.is_dir() else []
    while len(album.classes) < 2:  # the fewest that make sense, ready to be named
        album.add_class()
    judge = Judge(lambda images, labels: init.adapt(images, labels, device=device))
    silent = "start it with --ask apis.toml to ask APIs"
    title = (run or folder).resolve().name
    saved = support is None and (folder / "classifier.safetensors").is_file()
    return Studio(title, folder, run, init, album, judge, asking, silent, tuple(notes), saved)


def _never(images: object, labels: object) -> FewShotClassifier:
    raise ConfigError("this classifier came without its pictures and cannot be taught; play with a run instead")
