"""The product of learning: one initialisation that adapts to a new task, in one file."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dfml.config import from_mapping
from dfml.errors import ArtifactError
from dfml.files import load_tensors, save_tensors
from dfml.nets import NetSpec
from dfml.nets.expected_answers import ExpectedAnswers
from dfml.nets.functional import Net, Params
from dfml.notebook import facts_table

if TYPE_CHECKING:
    from dfml.adaptation.classifier import FewShotClassifier

KIND, VERSION = "initialisation", 1


@dataclass(frozen=True, eq=False)
class Initialisation:
    """Weights, the architecture they fit, and how they came to be.

    Input contract: images in [0, 1] of `net.channels` channels at `net.size` x `net.size`; the network itself
    subtracts 0.5 and divides by 0.25.
    """

    params: Params
    net: NetSpec
    statistics: dict[str, Tensor] = field(default_factory=dict)
    """mean and variance of every BatchNorm layer over the images of learning; empty where there were none"""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """method, config, API names, queries, seed, version"""
    expected: ExpectedAnswers | None = None
    """what the student expects its APIs to answer, where it was taught by their answers; the head `answers` needs it"""

    @property
    def data_free(self) -> bool:
        """Whether learning saw no image but those it made itself."""
        return not self.provenance.get("taught_with")

    @property
    def caveat(self) -> str | None:
        """What has to stand beside any figure about this initialisation, if it is not data-free."""
        return caveat(self.provenance)

    def _repr_html_(self) -> str:
        """How it looks in a notebook."""
        told, net = self.provenance, self.net
        facts = {
            "network": f"{net.arch}, {net.channels} x {net.size} x {net.size} pixels",
            "taught by": f"{told.get('method', 'nobody')}, {int(told.get('queries', 0)):,} answers of "
            f"{len(told.get('apis', ())):,} APIs",
            "data": self.caveat or "data-free: it saw no image but those it made itself",
        }
        return facts_table("Initialisation", facts)

    def save(self, path: str | Path) -> None:
        """Write one safetensors file."""
        tensors = {f"params.{name}": tensor for name, tensor in self.params.items()}
        tensors |= {f"statistics.{name}": tensor for name, tensor in self.statistics.items()}
        if self.expected is not None:
            tensors |= {f"expected.{name}": tensor for name, tensor in self.expected.state_dict().items()}
        about = {"net": asdict(self.net), "provenance": dict(self.provenance)}
        save_tensors(Path(path), tensors, kind=KIND, version=VERSION, about=about)

    @classmethod
    def load(cls, path: str | Path) -> "Initialisation":
        """Read a file written by `save`, or the `init.safetensors` of a run folder."""
        path = Path(path)
        if path.is_dir():
            path = path / "init.safetensors"
        tensors, about = load_tensors(path, kind=KIND, version=VERSION)
        net = from_mapping(NetSpec, about.get("net", {}), where=str(path))
        groups: dict[str, dict[str, Tensor]] = {"params": {}, "statistics": {}, "expected": {}}
        for name, tensor in tensors.items():
            group, _, rest = name.partition(".")
            group = "expected" if group == "voices" else group  # as the first versions called it
            if group not in groups:
                raise ArtifactError(
                    f"{path} has the extra tensor {name!r}, which no initialisation holds; make it anew"
                )
            groups[group][rest] = tensor
        _check_shapes(path, groups["params"], net)
        expected = ExpectedAnswers.from_state(groups["expected"]) if groups["expected"] else None
        return cls(groups["params"], net, groups["statistics"], about.get("provenance", {}), expected)

    def on(self, device: torch.device | str) -> "Initialisation":
        """The same on `device`; a file is always loaded to the CPU."""
        return replace(
            self,
            params={name: tensor.to(device) for name, tensor in self.params.items()},
            statistics={name: tensor.to(device) for name, tensor in self.statistics.items()},
            expected=None if self.expected is None else self.expected.on(device),
        )

    def adapt(self, images: Any, labels: Any, **settings: Any) -> "FewShotClassifier":
        """A classifier for the classes of `labels`, from a few labelled images; see `FewShotClassifier`."""
        from dfml.adaptation.classifier import FewShotClassifier

        return FewShotClassifier(self, **settings).fit(images, labels)


def caveat(table: Mapping[str, Any]) -> str | None:
    """The same from the provenance, or from the config of a run."""
    taught = table.get("taught_with")
    if not taught:
        return None
    return f"not data-free: taught with {int(taught.get('pictures', 0)):,} pictures of the user's own"


def _check_shapes(path: Path, params: Params, spec: NetSpec) -> None:
    expected = Net(spec).shapes
    for name in sorted(params.keys() ^ expected.keys()):
        problem = "lacks" if name in expected else "has the extra"
        raise ArtifactError(f"{path} {problem} weight {name!r} for a {spec.arch} of width {spec.width}; make it anew")
    for name, shape in expected.items():
        if params[name].shape != shape:
            raise ArtifactError(f"{path}: {name} has shape {tuple(params[name].shape)}, expected {tuple(shape)}")
