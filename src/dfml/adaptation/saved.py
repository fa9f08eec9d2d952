"""A fitted classifier as one file, with a model card and, for those without dfml, its student as ONNX."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from dfml.adaptation.asking import SupportAnswers
from dfml.adaptation.student import FrozenClassifier
from dfml.cards import classifier_card, write_card
from dfml.files import load_tensors, save_tensors
from dfml.nets import NetSpec
from dfml.nets.expected_answers import ExpectedAnswers
from dfml.nets.export import export_onnx
from dfml.nets.functional import MEAN, STD

KIND, VERSION = "classifier", 3
FILE = "classifier.safetensors"


@dataclass(frozen=True, kw_only=True)
class SavedClassifier:
    """Everything about a fitted classifier but its APIs, their ledgers and its initialisation."""

    classes: list[Any]
    settings: dict[str, Any]
    """arguments of its constructor"""
    shape: tuple[int, int, int]
    student: FrozenClassifier | None
    support: SupportAnswers | None
    """what its APIs said about the support set"""
    manifest: str | None
    """where its APIs are described"""
    provenance: dict[str, Any] | None
    """how its network was taught; None where there is none, or nobody knows"""
    support_set: tuple[Tensor, Tensor] | None
    """uint8 images (n, c, s, s) at the student's size, and labels (n,)"""

    def write(self, folder: Path) -> Path | None:
        """The file, a model card and, where there is a student and the package onnx, `model.onnx`: its path."""
        self._write_file(folder / FILE)
        asks = () if self.support is None else self.support.names
        write_card(folder, classifier_card(self.classes, self.provenance, asks=asks))
        if self.student is None or find_spec("onnx") is None:
            return None
        export_student(self.student, self.classes, folder / "model.onnx")
        return folder / "model.onnx"

    def _write_file(self, path: Path) -> None:
        tensors: dict[str, Tensor] = {}
        about: dict[str, Any] = {"classes": self.classes, "settings": self.settings, "shape": list(self.shape)}
        if self.provenance is not None:
            about["provenance"] = self.provenance
        if self.student is not None:
            about["net"], about["mirror"] = asdict(self.student.spec), self.student.mirror
            tensors |= {f"student.{name}": tensor for name, tensor in self.student.state_dict().items()}
        if self.support is not None:
            about["apis"] = {"names": list(self.support.names), "shots": self.support.shots}
            if self.manifest is not None:
                about["apis"]["manifest"] = self.manifest
            tensors |= {f"apis.{place}": sums for place, sums in enumerate(self.support.sums)}
            tensors["apis.weights"] = self.support.weights
        if self.support_set is not None:
            tensors["support.images"], tensors["support.labels"] = self.support_set
        save_tensors(path, tensors, kind=KIND, version=VERSION, about=about)

    @classmethod
    def read(cls, folder: Path) -> Self:
        tensors, about = load_tensors(folder / FILE, kind=KIND, version=VERSION)
        told, student, support = about.get("apis"), None, None
        if "net" in about:
            own = {name.removeprefix("student."): t for name, t in tensors.items() if name.startswith("student.")}
            student = _student_from(NetSpec(**about["net"]), own, mirror=about.get("mirror", False))
        if told is not None:
            sums = tuple(tensors[f"apis.{place}"] for place in range(len(told["names"])))
            support = SupportAnswers(tuple(told["names"]), tensors["apis.weights"], sums, told["shots"])
        kept = (tensors["support.images"], tensors["support.labels"]) if "support.images" in tensors else None
        return cls(
            classes=about["classes"],
            settings=about["settings"],
            shape=tuple(about["shape"]),
            student=student,
            support=support,
            manifest=None if told is None else told.get("manifest"),
            provenance=about.get("provenance"),
            support_set=kept,
        )


def export_student(student: FrozenClassifier, classes: Sequence[Any], path: str | Path) -> None:
    """One float32 input (n, c, h, w) in [0, 1], one output of probabilities."""
    spec = student.spec
    export_onnx(
        student,
        path,
        name="classifier",
        classes=tuple(map(str, classes)),
        image=(spec.channels, spec.size, spec.size),
        mean=[MEAN] * spec.channels,
        std=[STD] * spec.channels,
    )


def _student_from(spec: NetSpec, tensors: dict[str, Tensor], *, mirror: bool) -> FrozenClassifier:
    named = {name.removeprefix("expected."): t for name, t in tensors.items() if name.startswith("expected.")}
    expected = ExpectedAnswers.from_state(named) if named else None
    student = FrozenClassifier(
        spec,
        spec.outline(),
        sums=tensors.get("sums"),
        towards=tensors.get("towards"),
        centre=tensors.get("centre"),
        expected=expected,
        mirror=mirror,
    )
    student.load_state_dict(tensors)
    return student
