"""What the tests of engines share."""

from collections.abc import Iterator
from typing import Any

import pytest
from engine_cluster import cluster_of


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes that live as long as the module."""
    with cluster_of(2) as running:
        yield running
