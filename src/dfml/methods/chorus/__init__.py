"""Chorus: ask every API about the same pictures drawn from nothing, and distil all their answers into one student."""

from dfml.methods.chorus.method import (
    ASKS_TOGETHER,
    NEEDS_WEIGHTS,
    PRESETS,
    ChorusConfig,
    cost,
    effort,
    expected,
    footprint,
    plan,
    run,
)

__all__ = [
    "ASKS_TOGETHER",
    "NEEDS_WEIGHTS",
    "PRESETS",
    "ChorusConfig",
    "cost",
    "effort",
    "expected",
    "footprint",
    "plan",
    "run",
]
