"""Where work is done and APIs are asked: on this machine, or on a Ray cluster. No result depends on it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from dfml.apis.blackbox import BlackBox
from dfml.engine.pool import Finished, Report, WorkProgress, side_by_side
from dfml.errors import ConfigError, nearest
from dfml.runtime import cores

Item = TypeVar("Item")
Result = TypeVar("Result")
ENGINES = ("local", "ray")
WAITING = 64
"""Remote APIs that are asked at once: waiting for an answer needs no processor."""


def as_it_is(item: Item) -> Item:
    """What travels as it is."""
    return item


class Engine(Protocol):
    """Somewhere to work."""

    @property
    def workers(self) -> int:
        """Local APIs that can be asked at once."""
        ...

    @property
    def waiting(self) -> int:
        """Remote APIs that can be asked at once."""
        ...

    def spread(self, apis: Sequence[BlackBox]) -> list[BlackBox]:
        """The same APIs, asked there; each by one process at a time. Ledgers stay here, around what comes out."""
        ...

    def side_by_side(
        self,
        work: Callable[[Item, Report], Result],
        items: Sequence[Item],
        *,
        workers: int | None = None,
        equip: Callable[[Item], Item] = as_it_is,
    ) -> Iterator[WorkProgress | Finished[Result]]:
        """As `pool.side_by_side`; `equip` puts into an item what a machine needs that does not see our files."""
        ...


class Local:
    """This machine: APIs are asked by this process, work is done in processes of their own."""

    waiting = WAITING

    @property
    def workers(self) -> int:
        return cores()

    def spread(self, apis: Sequence[BlackBox]) -> list[BlackBox]:
        return list(apis)

    def side_by_side(
        self,
        work: Callable[[Item, Report], Result],
        items: Sequence[Item],
        *,
        workers: int | None = None,
        equip: Callable[[Item], Item] = as_it_is,
    ) -> Iterator[WorkProgress | Finished[Result]]:
        return side_by_side(work, items, workers=workers)  # these processes see our files, so `equip` is not needed


@contextmanager
def open_engine(name: str = "local", address: str | None = None) -> Iterator[Engine]:
    """The engine called `name`, for as long as it is needed; `address` is that of a Ray cluster that runs already."""
    if name not in ENGINES:
        raise ConfigError(f"unknown engine {name!r}; {nearest(name, ENGINES)}")
    if name == "local":
        if address is not None:
            raise ConfigError(f"the address {address} is for --engine ray; the local engine needs none")
        yield Local()
        return
    try:
        import ray  # noqa: F401
    except ImportError:
        raise ConfigError("--engine ray needs the package ray; install it with `pip install 'dfml[ray]'`") from None
    from dfml.engine.ray_cluster import open_cluster

    with open_cluster(address) as cluster:
        yield cluster
