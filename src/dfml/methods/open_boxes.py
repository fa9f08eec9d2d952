"""What methods share that work on the networks inside APIs: they ask nothing, and need a zoo with weights."""

from collections.abc import Sequence
from typing import Any

from dfml.apis.blackbox import ApiSpec, OpenBox, innermost
from dfml.apis.ledger import Metered
from dfml.errors import ConfigError
from dfml.nets.export import EndToEnd

NEEDS_WEIGHTS, ASKS_TOGETHER = True, False


def cost(config: Any, specs: Sequence[ApiSpec]) -> list[int]:
    """No query at all."""
    return [0] * len(specs)


def expected(config: Any, specs: Sequence[ApiSpec]) -> list[int]:
    """The same."""
    return cost(config, specs)


def opened(apis: Sequence[Metered], *, method: str) -> dict[str, EndToEnd]:
    """The network of every API, by the API's name; `ConfigError` where one does not show it."""
    networks = {}
    for api in apis:
        box = innermost(api)
        if not isinstance(box, OpenBox):
            raise ConfigError(f"{api.spec.name} is a black box; {method} needs a zoo with weights")
        networks[api.spec.name] = box.network
    return networks
