"""Numbers as people say them."""


def percent(fraction: float | None) -> str:
    """0.8431 as `84.3 %`."""
    return "" if fraction is None else f"{100 * fraction:.1f} %"


def amount(count: float) -> str:
    """Bytes as `1.2 GB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}" if count < 10 * size else f"{count / size:.0f} {unit}"
    return f"{count / 1e3:.0f} kB"


def duration(seconds: float) -> str:
    """4000 as `67 min`."""
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"


def money(usd: float | None, before: str = "") -> str:
    """1.5 as `1.50 USD`, with a word before it; nothing where no price is known."""
    return "" if usd is None else f"{before}{usd:,.2f} USD"
