"""BiDf-MKD, the paper's method (alg:blackboxDFML): recover, distil on two levels, remember, replay."""

from dfml.methods.bidf_mkd.learner import run
from dfml.methods.bidf_mkd.plan import cost, effort, expected, footprint, plan
from dfml.methods.bidf_mkd.settings import PRESETS, BidfMkdConfig

NEEDS_WEIGHTS = ASKS_TOGETHER = False

__all__ = [
    "ASKS_TOGETHER",
    "NEEDS_WEIGHTS",
    "PRESETS",
    "BidfMkdConfig",
    "cost",
    "effort",
    "expected",
    "footprint",
    "plan",
    "run",
]
