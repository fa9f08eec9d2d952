"""MAZE: model stealing by zero-order gradients (Kariyappa et al. 2021), a clone of each API, and their mean."""

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

AFFORDABLE = ExtractionConfig(game="maze", directions=2, generator_lr=0.01)
PUBLISHED = ExtractionConfig(
    game="maze",
    rounds=2_604,
    batch=128,
    directions=10,
    radius=1e-3,
    clone_lr=0.1,
    generator_lr=1e-4,
    latent=100,
    filters=64,
)
"""5 million queries, as the released code asks"""
PRESETS = {"default": ClonesConfig(extraction=AFFORDABLE), "paper": ClonesConfig(extraction=PUBLISHED)}


def run(config: ClonesConfig, place: Workplace) -> Initialisation:
    """A generator against a clone, by KL(API || clone), with momentum in its estimates, and replay."""
    return run_clones(config, place, method="maze")
