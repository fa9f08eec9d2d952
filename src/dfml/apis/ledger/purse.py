"""What a run has spent so far, kept up to date without asking every ledger each time."""

from collections.abc import Sequence

from dfml.apis.ledger.metered import Metered
from dfml.events import Spent


class Purse:
    """Queries and money of several APIs; `look` again at the one that was asked."""

    def __init__(self, apis: Sequence[Metered] = ()) -> None:
        self._apis: dict[str, Metered] = {}
        self._queries: dict[str, int] = {}  # answers that are kept
        self._paid: dict[str, int] = {}  # and those that could not be used
        for api in apis:
            self.add(api)

    def add(self, api: Metered) -> None:
        """One more, with what it was paid for before."""
        self._apis[api.spec.name] = api
        self.look(api.spec.name)

    def look(self, *names: str) -> Spent:
        """What is spent by now, if only these APIs were asked since."""
        for name in names:
            ledger = self._apis[name].ledger
            self._queries[name] = ledger.queries
            self._paid[name] = ledger.queries + ledger.unusable
        priced = [
            self._paid[name] * api.spec.terms.price / 1000
            for name, api in self._apis.items()
            if api.spec.terms.price is not None
        ]
        return Spent(queries=sum(self._queries.values()), usd=sum(priced) if priced else None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._apis)
