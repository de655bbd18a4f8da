"""Amounts as text: bytes and seconds with their units."""

from __future__ import annotations


def bytes_text(n: float) -> str:
    """A number of bytes with a decimal unit.

    >>> bytes_text(999), bytes_text(6_500_000_000), bytes_text(2.05e15)
    ('999 B', '6.5 GB', '2.05 PB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} PB"


def seconds_text(s: float) -> str:
    """A duration with its unit.

    >>> seconds_text(0.034), seconds_text(75), seconds_text(7300), seconds_text(900_000)
    ('0.034 s', '1 min 15 s', '2 h 1 min', '10 d 10 h')
    """
    if s < 60:
        return f"{s:.2g} s" if s < 10 else f"{s:.0f} s"
    if s < 3600:
        return f"{s // 60:.0f} min {s % 60:.0f} s"
    if s < 48 * 3600:
        return f"{s // 3600:.0f} h {s % 3600 // 60:.0f} min"
    return f"{s // 86400:.0f} d {s % 86400 // 3600:.0f} h"
