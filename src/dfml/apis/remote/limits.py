"""How hard an API may be pressed: the group `limits` of the manifest."""

from dataclasses import dataclass

from dfml.config import above_zero, zero_or_more
from dfml.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How hard an API may be pressed, and how long it is waited for."""

    rate: float | None = None
    """requests a second at most"""
    images_per_request: int = 32
    """images that travel together at most; a server that calls that too large gets fewer"""
    concurrency: int = 4
    """requests under way at once"""
    timeout: float = 30.0
    """seconds for one request, from connecting to the last byte of the answer"""
    retries: int = 9
    """how often a request is repeated that failed for a reason that may pass"""
    patience: float = 120.0
    """seconds for which an API that only ever asks us to wait is waited for"""

    def __post_init__(self) -> None:
        above_zero(self, "limits", "images_per_request", "concurrency", "timeout", "patience")
        zero_or_more(self, "limits", "retries")
        if self.rate is not None and not self.rate > 0:
            raise ConfigError(f"limits.rate must be above 0 requests a second, not {self.rate}")
