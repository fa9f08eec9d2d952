"""Small APIs, and small settings that learn in seconds."""

import pytest
from colour_apis import Flaky, colour_api
from open_apis import open_api


@pytest.fixture
def apis():
    return [Flaky(colour_api(f"api-{i}", seed=i)) for i in range(2)]


@pytest.fixture(scope="module")
def opened():
    """APIs whose weights are known."""
    return [open_api(f"api-{i}", seed=i, steps=40) for i in range(2)]


@pytest.fixture
def small():
    """Settings under which one recovered set costs 5 * (3 + 1) * 3 * 8 = 480 queries."""
    return [
        "recovery.steps=5",
        "recovery.directions=3",
        "recovery.estimator=sphere",
        "recovery.images_per_class=8",
        "recovery.filters=4",
        "recovery.latent=8",
        "recovery.early_stop=false",
        "recovery.limit=1000",
        "memory.require_agreement=false",
        "net.width=4",
        "replay.shot=2",
        "replay.query=3",
        "replay.batch=2",
        "replay.inner_steps=2",
        "distil.inner_steps=2",
    ]
