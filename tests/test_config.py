"""Configuration: round trips, overrides, and errors that name the culprit."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from dfml.config import from_mapping, override, to_mapping
from dfml.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Inner:
    directions: int = 100
    radius: float = 5e-3
    betas: tuple[float, float] = (0.5, 0.999)


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: Literal["paper", "ours"] = "paper"
    early: bool = False
    limit: int | None = None
    recovery: Inner = field(default_factory=Inner)


def test_a_config_survives_the_way_through_plain_tables():
    config = Outer(name="ours", limit=3, recovery=Inner(directions=7))
    assert from_mapping(Outer, to_mapping(config), where="x") == config


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("recovery.directions=10", Outer(recovery=Inner(directions=10))),
        ("recovery.radius=1", Outer(recovery=Inner(radius=1.0))),
        ("recovery.betas=[0.9, 0.99]", Outer(recovery=Inner(betas=(0.9, 0.99)))),
        ("name=ours", Outer(name="ours")),
        ('name="ours"', Outer(name="ours")),
        ("early=true", Outer(early=True)),
        ("limit=5", Outer(limit=5)),
    ],
)
def test_overrides_reach_nested_keys(assignment, expected):
    assert override(Outer(), [assignment]) == expected


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        ("recovery.direction=10", "unknown key 'direction'; did you mean 'directions'"),
        ("recovry.directions=10", "unknown group 'recovry'; did you mean 'recovery'"),
        ("recovery.directions=ten", "directions: expected int, got 'ten'"),
        ("recovery.directions=true", "directions: expected int, got True"),
        ("recovery.directions=1.5", "directions: expected int, got 1.5"),
        ("recovery.betas=[0.9]", "betas: expected 2 values, got 1"),
        ("name=theirs", "'theirs' is not one of paper, ours"),
        ("early", "expected key=value"),
    ],
)
def test_a_wrong_override_is_refused_by_name(assignment, complaint):
    with pytest.raises(ConfigError, match=complaint):
        override(Outer(), [assignment])
