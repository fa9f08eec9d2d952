"""What was asked of every API, what it answered, and what may still be asked."""

from dfml.apis.ledger.ledger import Budget, Ledger, Metered, ledger_path, spending

__all__ = ["Budget", "Ledger", "Metered", "ledger_path", "spending"]
