"""A fitted classifier as one file."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from dfml.adaptation.asking import SupportAnswers
from dfml.adaptation.student import FrozenClassifier
from dfml.files import load_tensors, save_tensors
from dfml.nets import NetSpec
from dfml.nets.expected_answers import ExpectedAnswers

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

    def write(self, folder: Path) -> None:
        tensors: dict[str, Tensor] = {}
        about: dict[str, Any] = {"classes": self.classes, "settings": self.settings, "shape": list(self.shape)}
        if self.provenance is not None:
            about["provenance"] = self.provenance
        if self.student is not None:
            about["net"] = asdict(self.student.spec)
            tensors |= {f"student.{name}": tensor for name, tensor in self.student.state_dict().items()}
        if self.support is not None:
            about["apis"] = {"names": list(self.support.names), "shots": self.support.shots}
            if self.manifest is not None:
                about["apis"]["manifest"] = self.manifest
            tensors |= {f"apis.{place}": sums for place, sums in enumerate(self.support.sums)}
            tensors["apis.weights"] = self.support.weights
        if self.support_set is not None:
            tensors["support.images"], tensors["support.labels"] = self.support_set
        save_tensors(folder / FILE, tensors, kind=KIND, version=VERSION, about=about)

    @classmethod
    def read(cls, folder: Path) -> Self:
        tensors, about = load_tensors(folder / FILE, kind=KIND, version=VERSION)
        told, student, support = about.get("apis"), None, None
        if "net" in about:
            own = {name.removeprefix("student."): t for name, t in tensors.items() if name.startswith("student.")}
            student = _student_from(NetSpec(**about["net"]), own)
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


def _student_from(spec: NetSpec, tensors: dict[str, Tensor]) -> FrozenClassifier:
    named = {name: tensors[f"expected.{name}"] for name in ExpectedAnswers.TENSORS if f"expected.{name}" in tensors}
    expected = ExpectedAnswers(**named) if named else None
    student = FrozenClassifier(
        spec,
        spec.outline(),
        sums=tensors.get("sums"),
        towards=tensors.get("towards"),
        centre=tensors.get("centre"),
        expected=expected,
    )
    student.load_state_dict(tensors)
    return student
