"""What was asked of every API, what it answered, and what may still be asked."""

from dfml.apis.ledger.affordability import Affordability
from dfml.apis.ledger.ledger import COLUMNS, Budget, Ledger, Metered, ledger_path, spending
from dfml.apis.ledger.purse import Purse

__all__ = ["COLUMNS", "Affordability", "Budget", "Ledger", "Metered", "Purse", "ledger_path", "spending"]
