"""What cells will cost, before they are run: queries at most, time roughly."""

from collections.abc import Sequence

from dfml.apis.blackbox import ApiSpec
from dfml.bench.cells import Cell
from dfml.bench.real_maml import RealMamlConfig
from dfml.config import override
from dfml.methods import METHODS, find_method
from dfml.methods.bidf_mkd.plan import META_STEP_SECONDS

QUERY_SECONDS, TASK_SECONDS = 2e-4, 0.25
"""one core's, of a query to a local Conv4 of 32 x 32 images, and of a 5-way test task under two heads"""


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
    seconds = TASK_SECONDS * cfg.tasks * len(cfg.shots) if cell.measure == "accuracy" else 60.0
    if cell.method == "real-maml":
        return 0, seconds + override(RealMamlConfig(), cell.settings).iterations * META_STEP_SECONDS
    if cell.method not in METHODS:
        return 0, seconds
    method = find_method(cell.method)
    specs = _expected_specs(cell)
    config = override(method.PRESETS[cell.preset or "default"], cell.settings)
    config = method.plan(config, specs, budget=None, budget_per_api=cell.budget_per_api)
    limit = cell.budget_per_api
    asked = sum(count if limit is None else min(count, limit) for count in method.cost(config, specs))
    return asked, seconds + asked * QUERY_SECONDS + method.effort(config, specs)


def _expected_specs(cell: Cell) -> list[ApiSpec]:
    """What the cell's APIs will be, whether they are built already or not; the image size changes no number here."""
    return [
        ApiSpec(name=f"{number}", classes=tuple(map(str, range(draw.zoo.way))), image=(3, 32, 32))
        for draw in cell.apis
        for number in range(draw.first, draw.first + draw.count)
    ]
