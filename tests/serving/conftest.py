"""What the tests of the server share."""

from colour_server import serve

__all__ = ["serve"]
