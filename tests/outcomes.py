"""What runs came to: their events, and whether two learned the same; not a test itself."""

import json
from pathlib import Path
from typing import Any

import torch

from dfml.initialisation import Initialisation


def events_of(run: Path, *kinds: str) -> list[dict[str, Any]]:
    """What the folder of a run keeps of it, in order; of these kinds alone, where some are named."""
    events = (json.loads(line) for line in (run / "events.jsonl").read_text().splitlines())
    return [event for event in events if not kinds or event["event"] in kinds]


def same(one: Initialisation, other: Initialisation) -> bool:
    """Whether two initialisations have the same weights, to the last bit."""
    return all(torch.equal(one.params[name], other.params[name]) for name in one.params)
