"""DFME: data-free model extraction (Truong et al. 2021), a clone of each API, and the mean of the clones."""

from dfml.initialisation import Initialisation
from dfml.methods import Workplace
from dfml.methods.clones import (
    ASKS_TOGETHER,
    NEEDS_WEIGHTS,
    ClonesConfig,
    cost,
    effort,
    expected,
    footprint,
    plan,
    run_clones,
)
from dfml.recovery.extraction import ExtractionConfig

__all__ = ["ASKS_TOGETHER", "NEEDS_WEIGHTS", "PRESETS", "cost", "effort", "expected", "footprint", "plan", "run"]

PUBLISHED = ExtractionConfig(
    rounds=11_160, batch=256, directions=1, radius=1e-3, clone_lr=0.1, generator_lr=1e-4, filters=64
)
"""20 million queries"""
PRESETS = {"default": ClonesConfig(), "paper": ClonesConfig(extraction=PUBLISHED)}


def run(config: ClonesConfig, place: Workplace) -> Initialisation:
    """A generator against a clone, by the L1 distance of recovered logits."""
    return run_clones(config, place, method="dfme")
