"""A Ray cluster of several nodes on this machine; not a test itself."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

STORE = 80 << 20
QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
"""Ray sees within seconds that a node is gone"""


@contextmanager
def cluster_of(nodes: int) -> Iterator[Any]:
    """A cluster whose head only leads, with so many nodes of one CPU each; this process is connected to it."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
    ray = pytest.importorskip("ray", reason="NO RAY: install the extra, or run `make test-ray`")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False, "_system_config": QUICK}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.workers = [cluster.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(nodes)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="CRITICAL")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
