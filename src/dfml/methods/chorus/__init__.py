"""Chorus: ask many APIs about pictures drawn from nothing, and distil all their answers into one student."""

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
