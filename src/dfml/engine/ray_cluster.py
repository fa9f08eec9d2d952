"""The engine `ray`: a cluster that is started here and ended after, or one that runs already."""

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import ray

from dfml.apis.blackbox import BlackBox
from dfml.engine import ray_work
from dfml.engine.choice import WAITING, as_it_is
from dfml.engine.pool import Finished, Report, WorkProgress
from dfml.engine.ray_apis import ImageStore, RayApi, Share
from dfml.engine.ray_errors import first_line
from dfml.errors import ConfigError
from dfml.runtime import cores

Item = TypeVar("Item")
Result = TypeVar("Result")
WAITING_A_CORE = 16
"""remote APIs that one process of a node may be asked for at once"""
MOST_WAITING = 1024
"""in all: each has a thread here, which waits with it"""
STORE_BYTES = 256 << 20


@contextmanager
def open_cluster(address: str | None) -> Iterator["Cluster"]:
    """The cluster at `address`, or one of this machine's cores that ends with us."""
    ours = not ray.is_initialized()
    if ours:
        if address is not None:
            _knock(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # dfml reports its use to no server
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # the way of the future, without a warning
        alone = {} if address else {"num_cpus": cores(), "object_store_memory": STORE_BYTES, "include_dashboard": False}
        try:
            ray.init(address or "local", log_to_driver=False, logging_level=logging.CRITICAL, **alone)
        except Exception as error:  # of any kind: Ray has no base for them
            where = f"there is no Ray cluster to join at {address}" if address else "Ray cannot be started here"
            raise ConfigError(f"{where} ({first_line(error)}); see that Ray and Python are the same there") from None
    try:
        cluster = Cluster()
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        if ours:
            ray.shutdown()


def _knock(address: str) -> None:
    """`ConfigError` if no cluster listens at `address`, of which Ray itself would die."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(
            f"{address} is no address of a Ray cluster; expected host:port, such as 10.0.0.1:6379, or auto"
        )
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"there is no Ray cluster to join at {address} ({error}); see that it runs there") from None


class Cluster:
    """All nodes that are up."""

    def __init__(self) -> None:
        nodes = [(node["NodeID"], int(node["Resources"].get("CPU", 0))) for node in ray.nodes() if node["Alive"]]
        most = max((cpus for _, cpus in nodes), default=0)
        self._slots = [node for turn in range(most) for node, cpus in nodes if turn < cpus]
        """a node for each of its cores, nodes in turn"""
        if not self._slots:
            raise ConfigError("the Ray cluster has no CPU to work with; add a node to it")
        self._shares: list[Share] = []

    @property
    def workers(self) -> int:
        return len(self._slots)

    @property
    def waiting(self) -> int:
        return max(WAITING, min(MOST_WAITING, WAITING_A_CORE * len(self._slots)))

    def spread(self, apis: Sequence[BlackBox]) -> list[BlackBox]:
        count, post = min(len(apis), len(self._slots)), ImageStore()
        shares = [Share(apis[i::count], self._slots[i], at_once=WAITING) for i in range(count)]
        self._shares += shares
        return [RayApi(api, shares[i % count], post) for i, api in enumerate(apis)]

    def side_by_side(
        self,
        work: Callable[[Item, Report], Result],
        items: Sequence[Item],
        *,
        workers: int | None = None,
        equip: Callable[[Item], Item] = as_it_is,
    ) -> Iterator[WorkProgress | Finished[Result]]:
        return ray_work.side_by_side(work, items, at_once=workers or len(self._slots), equip=equip)

    def close(self) -> None:
        """End the processes that hold APIs."""
        for share in self._shares:
            share.close()
