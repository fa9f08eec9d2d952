"""The switch between offline and asking: what APIs say of the pictures, and what that costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dfml import BlackBox, FewShotClassifier, Gated, Initialisation, load_apis, spending
from dfml.errors import ConfigError
from dfml.play.album import View, pixels
from dfml.play.judging import Probabilities
from dfml.play.pictures import Picture

SHOWN = 3
"""classes of an API's answer that are told"""


@dataclass(frozen=True)
class Opinion:
    """What one API says of one picture: its likeliest classes, and how likely."""

    api: str
    told: Sequence[tuple[str, float]]


@dataclass
class Heard:
    """What was said of an album's pictures by APIs and classifier together, column by column of `classes`.

    Its tables are replaced, never changed: another thread may be reading them.
    """

    version: int
    classes: Sequence[int]
    said: dict[int, Probabilities] = field(default_factory=dict)
    opinions: dict[int, list[Opinion]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


class Asking:
    """APIs of one manifest behind one switch. One thread asks at a time; any may turn the switch.

    Ledgers are in `folder`. Without an `initialisation` that is the folder of a live classifier, whose classes stay.
    """

    def __init__(
        self,
        initialisation: Initialisation | None,
        manifest: Path,
        folder: Path,
        *,
        budget: int | None,
        device: str = "cpu",
    ) -> None:
        self.on = False
        self.manifest, self.folder, self.budget, self.device = manifest, folder, budget, device
        self.initialisation = initialisation
        self.apis: list[BlackBox] = [Gated(api, lambda: self.on) for api in load_apis(manifest)]
        self.heard: Heard | None = None
        self._live: FewShotClassifier | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """At which images lose nothing that an API could see."""
        channels, heights, widths = zip(*(api.spec.image for api in self.apis), strict=True)
        return max(channels), max(heights), max(widths)

    def turn(self, on: bool) -> None:
        """Turn the switch. APIs that had failed are tried again when it is turned on anew."""
        if on and not self.on and self.heard is not None and self.heard.failures:
            self.heard = None
        self.on = on

    def ask(self, view: View, asked: Sequence[Picture], *, every: bool = False) -> Heard:
        """Ask about the examples, and about those of the pictures that are in doubt, or `every` API about each.

        What is on file is not asked again.
        """
        if not self.on:
            raise ConfigError("asking is off; turn the switch first")
        heard, live = self._fitted(view)
        if not asked:
            return heard
        live.set_params(ask=float(len(self.apis)) if every else "auto")
        outcome = live.answer(pixels(asked))
        opinions: dict[int, list[Opinion]] = {p.number: [] for p in asked}
        classes = {api.spec.name: api.spec.classes for api in self.apis}
        for name, (rows, answers) in outcome.answers.items():
            best = answers.topk(min(SHOWN, answers.shape[1]), dim=1)
            for row, values, columns in zip(rows.tolist(), best.values.tolist(), best.indices.tolist(), strict=True):
                told = [(classes[name][column], value) for column, value in zip(columns, values, strict=True)]
                opinions[asked[row].number].append(Opinion(name, told))
        heard.failures = heard.failures | outcome.failures
        heard.said = heard.said | dict(zip(opinions, outcome.probabilities.numpy(), strict=True))
        heard.opinions = heard.opinions | opinions
        return heard

    def weights(self) -> Mapping[str, float]:
        """How much each API tells about the classes, as a share; empty before the first question."""
        if self._live is None:
            return {}
        weights = self._live.api_weights_
        total = sum(weights.values()) or 1.0
        return {name: weight / total for name, weight in weights.items()}

    def cost(self, view: View) -> dict[str, Any]:
        """What was spent, what may be, and what turning the switch for these pictures can take."""
        spent: dict[str, Any] = spending(self.folder)["apis"] if (self.folder / "ledger").is_dir() else {}
        prices = {api.spec.name: api.spec.terms.price or 0.0 for api in self.apis}
        paid = {name: told["queries"] + told["unusable"] for name, told in spent.items()}
        known = self.heard is not None and self.heard.version == view.version
        examples = 0 if known or self.initialisation is None else self._classifier().most_queries_to_fit(view.labels)
        dearest = max(prices.values(), default=0.0)
        return {
            "queries": sum(paid.values()),
            "usd": sum(prices.get(name, 0.0) * count / 1000 for name, count in paid.items()),
            "budget": self.budget if self.budget is not None else self._own_budgets(),
            "examples": examples,
            "picture": len(self.apis),
            "usd_query": dearest / 1000,
            "priced": dearest > 0,
        }

    def named(self, view: View) -> FewShotClassifier:
        """The live classifier with its classes' names; all it asks about is on file."""
        if self._live is not None:
            self._live.close()  # of two that hold the ledgers open, one would not see what the other wrote
        live = self._classifier().fit(pixels(view.examples), view.named_labels)
        return live.set_params(apis=self.manifest, ask="auto")

    def close(self) -> None:
        self.on = False
        self._close()

    def _fitted(self, view: View) -> tuple[Heard, FewShotClassifier]:
        if self.heard is not None and self._live is not None and self.heard.version == view.version:
            return self.heard, self._live
        self._close()
        if self.initialisation is None:
            settings = {"budget": self.budget, "learn_from_answers": False}
            live = FewShotClassifier.load(self.folder, device=self.device, apis=self.apis, **settings)
            self._live, self.heard = live, Heard(view.version, range(len(live.classes_)))
            return self.heard, live
        if len(view.classes) < 2:
            raise ConfigError("a classifier needs at least 2 classes with pictures; add some first")
        live = self._classifier().fit(pixels(view.examples), view.labels)
        if not self.on:  # what was not asked must not pass for a failure
            raise ConfigError("asking was switched off before all APIs had answered")
        self._live, self.heard = live, Heard(view.version, live.classes_.tolist(), failures=dict(live.failures_))
        return self.heard, live

    def _classifier(self) -> FewShotClassifier:
        return FewShotClassifier(
            self.initialisation,
            device=self.device,
            apis=self.apis,
            budget=self.budget,
            folder=self.folder,
            learn_from_answers=False,  # what is said of a picture is not to depend on those beside it
        )

    def _own_budgets(self) -> int | None:
        budgets = [api.spec.terms.budget for api in self.apis]
        return None if None in budgets else sum(b or 0 for b in budgets)

    def _close(self) -> None:
        if self._live is not None:
            self._live.close()
        self._live = self.heard = None
