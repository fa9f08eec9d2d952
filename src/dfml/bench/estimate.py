"""What cells will cost, before they are run: queries exactly, time roughly."""

from collections.abc import Sequence
from typing import Any

from dfml.bench.cells import Cell
from dfml.bench.real_maml import RealMamlConfig
from dfml.config import override
from dfml.methods import find_method
from dfml.methods.bidf_settings import BidfMkdConfig
from dfml.methods.chorus import ChorusConfig
from dfml.methods.single_level import SingleLevelConfig

QUERY, IMAGE_STEP, META_STEP, TASK = 2e-4, 2.5e-3, 1.0, 0.25
"""seconds on one core of: a query to a local Conv4 of 32x32 images, one image in one step of the generator, a meta-step
of 4 tasks, and a 5-way test task under two heads"""


def estimate_cost(cells: Sequence[Cell]) -> str:
    """One sentence for all of them."""
    queries = seconds = 0.0
    for cell in cells:
        asked, taken = cell_cost(cell)
        queries, seconds = queries + asked, seconds + taken
    hours = f"about {seconds / 3600:,.1f} core hours"
    return f"at most {queries:,.0f} queries and {hours} for {len(cells)} cells, besides building zoos"


def cell_cost(cell: Cell) -> tuple[int, float]:
    """Queries at most, and seconds on one core."""
    cfg = cell.evaluation
    seconds = TASK * cfg.tasks * len(cfg.shots) if cell.measure == "accuracy" else 60.0
    config: Any = RealMamlConfig()
    if cell.method not in ("best-api", "api-features", "zoo", "real-maml"):
        config = find_method(cell.method).PRESETS[cell.preset or "default"]
    config = override(config, cell.settings)
    apis, way = sum(draw.count for draw in cell.apis), cell.apis[0].zoo.way
    if isinstance(config, ChorusConfig):
        asked = config.queries * apis
        return asked, seconds + asked * QUERY + config.distil.steps * 0.06
    if isinstance(config, RealMamlConfig):
        return 0, seconds + (config.iterations * META_STEP if cell.method == "real-maml" else 0.0)
    if isinstance(config, BidfMkdConfig):
        sets, meta_steps = 2 * (config.schedule.visits or 2 * apis), config.schedule.iterations
    elif isinstance(config, SingleLevelConfig):
        sets, meta_steps = apis, apis
    else:
        return 0, seconds
    asked = sets * config.recovery.queries(way)
    drawn = sets * config.recovery.steps * config.recovery.images_per_class * way
    return asked, seconds + asked * QUERY + drawn * IMAGE_STEP + meta_steps * META_STEP
