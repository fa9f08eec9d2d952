"""An initialisation, APIs or both, and a handful of labelled images -> a classifier, in scikit-learn's conventions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from dfml.adaptation.asking import Asking, Outcome, SupportAnswers, answer, most_queries, queries_to_fit
from dfml.adaptation.connecting import connect, copy_ledgers, passing_folder, refuse_changed
from dfml.adaptation.fitted import Fitted
from dfml.adaptation.heads import HEADS, Head
from dfml.adaptation.inputs import as_floats, as_tensor, pictures_of, support_set
from dfml.adaptation.saved import SavedClassifier
from dfml.adaptation.student import SUPPORT_WEIGHT, FrozenClassifier, adapt_student
from dfml.apis.blackbox import BlackBox, fit_to, release
from dfml.apis.ledger import Metered
from dfml.apis.manifest import read_manifest
from dfml.errors import ConfigError, nearest
from dfml.hardware import find_hardware
from dfml.initialisation import Initialisation

AUTO_WORTH = 0.4
"""`ask="auto"` sends a query where it is worth more than this; see `answer_features.worth_asking`"""
_NOT_SAVED = ("initialisation", "device", "apis", "folder", "budget")


class FewShotClassifier(Fitted):
    """A classifier for new classes from a few images each.

    `fit(images, labels)` takes images (n, c, h, w) or (n, h, w, c), uint8 or float in [0, 1], of any size, and labels
    of any kind. Without `apis` nothing is ever sent, and a prediction never depends on what else is in the batch:
    BatchNorm statistics are frozen when fitting, those of the support set blended with those of learning,
    `support_weight` to 1 - `support_weight`. Without a `head` it is nearest class mean: among expected answers where
    the initialisation knows them and no API is asked, else among features. Expected answers are those to an image and
    to its mirror image, unless `mirror` is False: a letter is another one in the mirror. It computes on `device`
    (cpu, cuda, cuda:1 or auto).

    With `apis`, a manifest or a list, these are asked about the support set when fitting, and when predicting about the
    images that the initialisation alone is least sure of: as many queries as `ask` times the number of images, or, with
    "auto", wherever one is worth it; None is 0 with an initialisation and 1 without, where the APIs are all there is.
    No more than `budget` queries are sent in all. Answers are kept in ledgers in `folder` (else until this object is
    gone), and none is paid for twice. With `learn_from_answers` what APIs say of some images of a batch also helps to
    judge the others.
    """

    def __init__(
        self,
        initialisation: Initialisation | str | Path | None = None,
        *,
        head: Head | None = None,
        lr: float = 0.01,
        steps: int = 10,
        support_weight: float = SUPPORT_WEIGHT,
        mirror: bool = True,
        device: str = "cpu",
        apis: str | Path | Sequence[BlackBox] | None = None,
        ask: float | Literal["auto"] | None = "auto",
        budget: int | None = None,
        learn_from_answers: bool = True,
        folder: str | Path | None = None,
    ) -> None:
        # scikit-learn's clone() wants every argument back as it was given, so nothing is checked before fit().
        self.initialisation = initialisation
        self.head = head
        self.lr = lr
        self.steps = steps
        self.support_weight = support_weight
        self.mirror = mirror
        self.device = device
        self.apis = apis
        self.ask = ask
        self.budget = budget
        self.learn_from_answers = learn_from_answers
        self.folder = folder

    def fit(self, images: Any, labels: Any) -> Self:
        """Adapt to the support set. Classes may have different numbers of images."""
        if self.head is not None and self.head not in HEADS:
            raise ConfigError(f"unknown head {self.head!r}; {nearest(self.head, HEADS)}")
        if self.initialisation is None and self.apis is None:
            raise ConfigError("FewShotClassifier needs an initialisation (one, or the path of a run folder) or APIs")
        self.classes_, x, y = support_set(images, labels)
        self._student = self._provenance = self._support = self._support_set = self._metered = None
        self.failures_ = {}
        shapes = list[tuple[int, int, int]]()
        if self.initialisation is not None:
            init = self._loaded()
            shape = (init.net.channels, init.net.size, init.net.size)
            small = fit_to(as_floats(x), shape)
            self._student, self._provenance = self._adapted(init, small, y), dict(init.provenance)
            shapes.append(shape)
            if self.apis is not None:  # `with_student` needs it later
                self._support_set = small.mul(255).round().to(torch.uint8), y
        if self.apis is not None:
            self._metered = self._connect()
            shapes += [api.spec.image for api in self._metered]
            self._support, self.failures_ = SupportAnswers.ask(self._metered, pictures_of(x), y, len(self.classes_))
            if self._student is None and not bool((self._support.weights > 0).any()):
                reason = next(iter(self.failures_.values()), "their answers to these images are all alike")
                raise ConfigError(f"no API can tell these classes apart ({reason}); add a run, images or other APIs")
        channels, heights, widths = zip(*shapes, strict=True)
        self._shape = max(channels), max(heights), max(widths)
        return self

    def with_student(self, initialisation: Initialisation) -> Self:
        """This live classifier with the network of another initialisation, adapted to the same support set."""
        self._check_fitted()
        if self._support_set is None:
            raise ConfigError("only a live classifier with a network of its own keeps its support set; adapt it anew")
        images, labels = self._support_set
        self.initialisation = initialisation
        self._student = self._adapted(initialisation, as_floats(images), labels)
        self._provenance = dict(initialisation.provenance)
        return self

    def predict_proba(self, images: Any) -> np.ndarray[Any, Any]:
        """One probability for each of `classes_` (n, way)."""
        return self.answer(images).probabilities.numpy()

    def predict(self, images: Any) -> np.ndarray[Any, Any]:
        """The most probable of `classes_` for each image (n,)."""
        best = self.predict_proba(images).argmax(1)
        return np.asarray(self.classes_[best])

    def score(self, images: Any, labels: Any) -> float:
        """The fraction of images that get their label."""
        return float((self.predict(images) == np.asarray(labels)).mean())

    def answer(self, images: Any) -> Outcome:
        """Probabilities for `classes_`, with which API was asked about which image, and what that cost."""
        self._check_fitted()
        x = as_tensor(images)
        guess, asking = self._guess(x), self.asking(len(x))
        if self._support is None or asking.queries == 0:
            apis = 0 if self._support is None else len(self._support.names)
            return Outcome(guess.logits.softmax(1), torch.zeros(len(x), apis, dtype=torch.bool))
        if self._metered is None:
            self._metered = self._connect(self._support)
        return answer(self._metered, self._support, pictures_of(x), guess, asking)

    def asking(self, images: int) -> Asking:
        """What `ask` means for a batch of so many images."""
        learn, ask = self.learn_from_answers, self.ask
        if ask == "auto":
            return Asking(least_worth=AUTO_WORTH, learn=learn)
        if ask is None:
            ask = 1.0 if self._student is None else 0.0
        if isinstance(ask, str) or not ask >= 0:
            raise ConfigError(f"ask is 'auto' or a number of queries an image, 0 or more, not {ask!r}")
        return Asking(queries=round(ask * images), learn=learn)

    def most_queries(self, images: int) -> int:
        """The most that predicting a batch of so many images can send; answers on file make it less."""
        self._check_fitted()
        return 0 if self._support is None else most_queries(len(self._support.names), images, self.asking(images))

    def most_queries_to_fit(self, labels: Sequence[Any]) -> int:
        """The most that `fit` can send for images of these labels; answers on file make it less."""
        apis = self.apis
        if apis is None:
            return 0
        return queries_to_fit(labels, len(read_manifest(Path(apis)).entries if isinstance(apis, str | Path) else apis))

    def close(self) -> None:
        """Close the ledgers and let the APIs go; asking again opens them again."""
        for api in self._metered or ():
            release(api)
            api.ledger.close()

    def save(self, folder: str | Path) -> Path | None:
        """Write `classifier.safetensors` and, where there is a student and the package onnx, `model.onnx`: its path.

        A model card, README.md, stands beside them. A live classifier's ledgers go along, into `folder`/ledger, and so
        do its initialisation and, at the network's size, its support set: `dfml refine` needs them.
        """
        self._check_fitted()
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if self._metered is not None:
            copy_ledgers(self._metered, folder)
        if self._support_set is not None:
            self._loaded().save(folder / "init.safetensors")
        return SavedClassifier(
            classes=self.classes_.tolist(),
            settings={name: value for name, value in self.get_params().items() if name not in _NOT_SAVED},
            shape=self._shape,
            student=self._student,
            support=self._support,
            manifest=str(Path(self.apis).resolve()) if isinstance(self.apis, str | Path) else None,
            provenance=self._provenance,
            support_set=self._support_set,
        ).write(folder)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        device: str = "cpu",
        apis: str | Path | Sequence[BlackBox] | None = None,
        **settings: Any,
    ) -> "FewShotClassifier":
        """Read what `save` wrote, wherever that was. `settings` replace what it was saved with, such as `ask`.

        A live classifier finds its APIs in the manifest that it was fitted with, or in `apis`, once it asks one.
        """
        folder = Path(folder)
        saved = SavedClassifier.read(folder)
        classifier = cls(**{**saved.settings, **settings}, device=device, apis=apis or saved.manifest)
        classifier.folder = folder
        classifier.classes_, classifier.failures_ = np.asarray(saved.classes), {}
        classifier._shape, classifier._support, classifier._metered = saved.shape, saved.support, None
        classifier._student = None if saved.student is None else saved.student.to(find_hardware(device).device)
        classifier._support_set, classifier._provenance = saved.support_set, saved.provenance
        if saved.support_set is not None:
            classifier.initialisation = folder / "init.safetensors"
        return classifier

    def _adapted(self, init: Initialisation, images: Tensor, labels: Tensor) -> FrozenClassifier:
        """The network of `init` for the support set at its own size: images (n, c, s, s) in [0, 1], labels (n,)."""
        device = find_hardware(self.device).device
        return adapt_student(
            init.on(device),
            images.to(device),
            labels.to(device),
            len(self.classes_),
            head=self.head or ("prototype" if self.apis is not None else None),  # what asking was tuned with
            lr=self.lr,
            steps=self.steps,
            support_weight=self.support_weight,
            mirror=self.mirror,
        )

    def _loaded(self) -> Initialisation:
        if isinstance(self.initialisation, Initialisation):
            return self.initialisation
        assert self.initialisation is not None
        return Initialisation.load(self.initialisation)

    def _connect(self, support: SupportAnswers | None = None) -> list[Metered]:
        """The APIs behind ledgers in `folder`, or in one that vanishes with this object; those of `support` only."""
        if self.apis is None:
            raise ConfigError("this classifier was fitted with APIs that are not on file; pass them as apis, or ask=0")
        folder = passing_folder(self) if self.folder is None else Path(self.folder)
        metered = connect(self.apis, folder, budget=self.budget, only=None if support is None else support.names)
        if support is not None:
            refuse_changed(metered, support)
        return metered
