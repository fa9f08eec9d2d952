"""A clone of each API, then the mean of their weights: DFME and MAZE as methods."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dfml.apis.blackbox import ApiSpec, BlackBox
from dfml.initialisation import Initialisation
from dfml.methods import Workplace
from dfml.methods.budgets import refuse_less, within_budgets
from dfml.methods.footprint import CALL, LOADED, Footprint, activation_bytes, image_bytes, ledger_bytes
from dfml.methods.meta_model import MetaModelConfig
from dfml.methods.students import mean_student, with_head
from dfml.methods.turns import turns
from dfml.nets.functional import Net, head_for
from dfml.recovery.extraction import Extraction, ExtractionConfig, extract
from dfml.recovery.inversion import OnStep
from dfml.rng import stream

NEEDS_WEIGHTS = ASKS_TOGETHER = False


@dataclass(frozen=True, kw_only=True)
class ClonesConfig:
    """One extraction an API."""

    net: MetaModelConfig = MetaModelConfig()
    extraction: ExtractionConfig = ExtractionConfig()


def plan(
    config: ClonesConfig, specs: Sequence[ApiSpec], *, budget: int | None, budget_per_api: int | None
) -> ClonesConfig:
    """Fill in the network's shape, and refuse a budget that buys nothing."""
    costs = [config.extraction.queries] * len(specs)
    advice = "extraction.rounds, extraction.batch or extraction.directions"
    refuse_less(costs, specs, budget=budget, budget_per_api=budget_per_api, what="clone", advice=advice)
    return replace(config, net=config.net.fitted(specs))


def cost(config: ClonesConfig, specs: Sequence[ApiSpec]) -> list[int]:
    """Queries to each API."""
    return within_budgets([config.extraction.queries] * len(specs), specs)


def expected(config: ClonesConfig, specs: Sequence[ApiSpec]) -> list[int]:
    """The same: no answer changes how much is asked."""
    return cost(config, specs)


def effort(config: ClonesConfig, specs: Sequence[ApiSpec]) -> float:
    """Seconds of one core: those of generators and clones."""
    return len(specs) * config.extraction.seconds


def footprint(config: ClonesConfig, specs: Sequence[ApiSpec]) -> Footprint:
    """The images of one extraction after the other; none is kept."""
    net, game = config.net.spec, config.extraction
    working = 4 * game.images * image_bytes(net) + game.batch * activation_bytes(net)
    return Footprint(LOADED + CALL + working, ledger_bytes(cost(config, specs), specs))


def run_clones(config: ClonesConfig, place: Workplace, *, method: str) -> Initialisation:
    """theta = mean of the clones, all begun at the same weights."""
    net = Net(config.net.spec, mixed=place.hardware.mixed)
    start = config.net.begin(place.seed, device=place.hardware.device)

    def clone(box: BlackBox, iteration: int, on_step: OnStep | None) -> Extraction:
        fitted, begun = head_for(net, start, box.spec.way)
        rng = stream(place.seed, "visit", iteration, "extraction")
        return extract(box, fitted, begun, config.extraction, rng=rng, on_round=on_step)

    extractions = turns(
        place,
        clone,
        method=method,
        most=lambda spec: config.extraction.queries,
        steps=config.extraction.rounds,
        what="clone",
        stage="cloning",
    )
    made = (turn.outcome for turn in extractions)
    return mean_student(net, ((with_head(one.clone, start), one.images) for one in made))
