"""What was asked of every API, what it answered, and what may still be asked."""

from dfml.apis.ledger.affordability import Affordability
from dfml.apis.ledger.budget import Budget
from dfml.apis.ledger.ledger import Ledger
from dfml.apis.ledger.metered import Metered
from dfml.apis.ledger.purse import Purse
from dfml.apis.ledger.spending import COLUMNS, ledger_path, spending

__all__ = ["COLUMNS", "Affordability", "Budget", "Ledger", "Metered", "Purse", "ledger_path", "spending"]
