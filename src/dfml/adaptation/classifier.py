"""An initialisation and a handful of labelled images -> a classifier, in scikit-learn's conventions."""

import inspect
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dfml.adaptation.heads import Head, best_head, check_expected, check_way, class_means, fine_tune, prototype_layer
from dfml.apis.blackbox import fit_to
from dfml.errors import ConfigError
from dfml.files import load_tensors, save_tensors
from dfml.hardware import find_hardware
from dfml.initialisation import Initialisation
from dfml.nets import Classifier, NetSpec
from dfml.nets.expected_answers import ExpectedAnswers
from dfml.nets.export import export_onnx
from dfml.nets.functional import MEAN, STD, Net, normalise
from dfml.nets.statistics import batch_statistics, blend, frozen

KIND, VERSION = "classifier", 2
COSINE_SCALE = 10.0
"""turns cosines into logits; what the literature's cosine classifiers learn is about this"""


SUPPORT_WEIGHT = 0.2
"""how much the support set's statistics count against those of learning; chosen on validation classes"""


class FewShotClassifier:
    """A classifier for new classes from a few images each.

    `fit(images, labels)` takes images (n, c, h, w) or (n, h, w, c), uint8 or float in [0, 1], of any size, and
    labels of any kind. A prediction never depends on what else is in the batch: BatchNorm statistics are frozen when
    fitting: those of the support set blended with those of learning, `support_weight` to 1 - `support_weight`.
    Without a `head` it is nearest class mean: among expected answers where the initialisation knows them, else among
    features. It computes on `device` (cpu, cuda, cuda:1 or auto); what goes in and comes out need not be there.
    """

    def __init__(
        self,
        initialisation: Initialisation | str | Path | None = None,
        *,
        head: Head | None = None,
        lr: float = 0.01,
        steps: int = 10,
        support_weight: float = SUPPORT_WEIGHT,
        device: str = "cpu",
    ) -> None:
        # scikit-learn's clone() wants every argument back as it was given, so nothing is checked before fit().
        self.initialisation = initialisation
        self.head = head
        self.lr = lr
        self.steps = steps
        self.support_weight = support_weight
        self.device = device

    def fit(self, images: Any, labels: Any) -> Self:
        """Adapt to the support set. Classes may have different numbers of images."""
        device = find_hardware(self.device).device
        init = self._loaded().on(device)
        labels = np.asarray(labels)
        self.classes_, indices = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ConfigError(f"a classifier needs at least 2 classes, got only {self.classes_.tolist()}; add another")
        x, y = self._inputs(images).to(device), torch.from_numpy(indices).to(device)
        if len(x) != len(y):
            raise ConfigError(f"got {len(x)} images but {len(y)} labels; pass one label an image")
        way = len(self.classes_)
        self._net = self._adapt(init, x, y, way)
        return self

    def predict_proba(self, images: Any) -> np.ndarray[Any, Any]:
        """One probability for each of `classes_` (n, way)."""
        self._check_fitted()
        x = normalise(self._inputs(images))
        with torch.inference_mode():
            parts = [self._net(batch.to(self._net.device)).softmax(1) for batch in x.split(256)]
        return torch.cat(parts).cpu().numpy()

    def predict(self, images: Any) -> np.ndarray[Any, Any]:
        """The most probable of `classes_` for each image (n,)."""
        best = self.predict_proba(images).argmax(1)
        return np.asarray(self.classes_[best])

    def score(self, images: Any, labels: Any) -> float:
        """The fraction of images that get their label."""
        return float((self.predict(images) == np.asarray(labels)).mean())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor."""
        names = list(inspect.signature(type(self)).parameters)
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ConfigError(f"unknown parameter {name!r}; known are {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_net")

    @property
    def input_spec(self) -> NetSpec:
        """The size and channels that images are brought to."""
        self._check_fitted()
        return self._net.spec

    def save(self, folder: str | Path) -> None:
        """Write `classifier.safetensors` and, for any ONNX runtime, `model.onnx`."""
        self._check_fitted()
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        spec = self._net.spec
        about = {
            "net": {
                "arch": spec.arch,
                "way": spec.way,
                "size": spec.size,
                "channels": spec.channels,
                "width": spec.width,
            },
            "classes": self.classes_.tolist(),
            "settings": {
                name: value for name, value in self.get_params().items() if name not in ("initialisation", "device")
            },
        }
        save_tensors(folder / "classifier.safetensors", self._net.state_dict(), kind=KIND, version=VERSION, about=about)
        self.export_onnx(folder / "model.onnx")

    def export_onnx(self, path: str | Path) -> None:
        """One float32 input (n, c, h, w) in [0, 1], one output of probabilities, everything between inside."""
        self._check_fitted()
        spec = self._net.spec
        export_onnx(
            self._net,
            path,
            name="classifier",
            classes=tuple(map(str, self.classes_)),
            image=(spec.channels, spec.size, spec.size),
            mean=[MEAN] * spec.channels,
            std=[STD] * spec.channels,
        )

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "cpu") -> "FewShotClassifier":
        """Read what `save` wrote, wherever that was."""
        tensors, about = load_tensors(Path(folder) / "classifier.safetensors", kind=KIND, version=VERSION)
        classifier = cls(**about["settings"], device=device)
        spec = NetSpec(**about["net"])
        classifier.classes_ = np.asarray(about["classes"])
        heard = {name: tensors[f"expected.{name}"] for name in ExpectedAnswers.TENSORS if f"expected.{name}" in tensors}
        classifier._net = FrozenClassifier(
            spec,
            spec.outline(),
            prototypes=tensors.get("prototypes"),
            expected=ExpectedAnswers(**heard) if heard else None,
        )
        classifier._net.load_state_dict(tensors)
        classifier._net.to(find_hardware(device).device)
        return classifier

    def _adapt(self, init: Initialisation, x: Tensor, y: Tensor, way: int) -> "FrozenClassifier":
        net, params = Net(init.net), dict(init.params)
        head = self.head or best_head(init.expected)
        check_way(net, way, head)
        check_expected(head, init.expected)
        spec = NetSpec(
            arch=init.net.arch, way=way, size=init.net.size, channels=init.net.channels, width=init.net.width
        )
        compares = head in ("prototype", "answers")
        if head == "prototype+finetune":
            with torch.no_grad():
                params |= prototype_layer(net.features(params, x), y, way)
        if compares:  # the layer for class scores is not used
            weight = params["head.weight"]
            params |= {"head.weight": weight.new_zeros(way, weight.shape[1]), "head.bias": weight.new_zeros(way)}
        else:
            start = {name: p.detach().requires_grad_() for name, p in params.items()}
            params = fine_tune(Net(spec), start, x, y, lr=self.lr, steps=self.steps)
        statistics = batch_statistics(spec, params, normalise(x))
        if init.statistics and self.support_weight < 1:
            statistics = blend(statistics, init.statistics, self.support_weight)
        expected = init.expected if head == "answers" else None
        adapted = FrozenClassifier(spec, frozen(spec, params, statistics), expected=expected)
        if compares:
            adapted.prototypes = F.normalize(class_means(adapted.directions(normalise(x)), y, way), dim=1)
        return adapted

    def _loaded(self) -> Initialisation:
        if self.initialisation is None:
            raise ConfigError("FewShotClassifier needs an initialisation; pass one, or the path of a run folder")
        if isinstance(self.initialisation, Initialisation):
            return self.initialisation
        return Initialisation.load(self.initialisation)

    def _inputs(self, images: Any) -> Tensor:
        """Images as float in [0, 1] at the size of the network."""
        spec = self._net.spec if hasattr(self, "_net") else self._loaded().net
        return fit_to(as_images(images), (spec.channels, spec.size, spec.size))

    def _check_fitted(self) -> None:
        if not hasattr(self, "_net"):
            message = "this FewShotClassifier is not fitted yet; call fit(images, labels) first"
            try:
                from sklearn.exceptions import NotFittedError
            except ImportError:
                raise ConfigError(message) from None
            raise NotFittedError(message)


class FrozenClassifier(nn.Module):
    """A network that stands still: normalised images -> logits, each image by itself."""

    prototypes: Tensor | None  # (way, d): compare directions with these; None: score with the network's last layer

    def __init__(
        self,
        spec: NetSpec,
        net: Classifier,
        *,
        prototypes: Tensor | None = None,
        expected: ExpectedAnswers | None = None,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.net = net.eval().requires_grad_(False)
        self.expected = expected
        self.register_buffer("prototypes", prototypes)

    @property
    def device(self) -> torch.device:
        return self.net.head.weight.device

    def forward(self, x: Tensor) -> Tensor:
        if self.prototypes is None:
            logits: Tensor = self.net(x)
            return logits
        return COSINE_SCALE * F.linear(self.directions(x), self.prototypes)

    def directions(self, x: Tensor) -> Tensor:
        """The direction (n, d) of every image's features, joined by its expected answers where those are known."""
        features = self.net.features(x)
        return F.normalize(features if self.expected is None else self.expected(features), dim=1)


def as_images(images: Any) -> Tensor:
    """Whatever holds images, as float (n, c, h, w) in [0, 1]."""
    x = images if isinstance(images, Tensor) else torch.from_numpy(np.ascontiguousarray(images))
    if x.dim() != 4:
        raise ConfigError(f"expected images (n, c, h, w) or (n, h, w, c), got shape {tuple(x.shape)}")
    if x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.permute(0, 3, 1, 2)
    x = x.float() / 255 if x.dtype == torch.uint8 else x.float()
    if not bool(((x >= 0) & (x <= 1)).all()):
        raise ConfigError("images must be uint8, or float in [0, 1]; divide by 255 or clip them first")
    return x
