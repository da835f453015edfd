"""Parse and format quantities: "80GB", "450GB/s", "4us", "67T", or plain numbers in base units.

sizes        bytes          kB MB GB TB are powers of 1000, KiB MiB GiB TiB of 1024
bandwidths   bytes/s        ... B/s; or bits: Mb/s Gb/s Tb/s
times        seconds        ns us ms s
rates        operations/s   K M G T P
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from graphwright.errors import InvalidCluster

_SI = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_BYTES = {
    **{f"{prefix}B": Fraction(10) ** power for prefix, power in _SI.items()},
    **{f"{prefix}iB": Fraction(1024) ** (i + 1) for i, prefix in enumerate("KMGTP")},
}
_UNITS: dict[str, dict[str, Fraction]] = {
    "size": _BYTES,
    "bandwidth": {
        **{f"{unit}/s": factor for unit, factor in _BYTES.items()},
        **{f"{prefix}b/s": Fraction(10) ** power / 8 for prefix, power in _SI.items()},
    },
    "time": {unit: Fraction(1, 1000**n) for unit, n in (("ns", 3), ("us", 2), ("ms", 1), ("s", 0))},
    "rate": {p.upper(): Fraction(10) ** power for p, power in _SI.items() if p},
}  # fmt: skip
_EXAMPLES = {
    "size": '"80GB", "16GiB" or a number of bytes',
    "bandwidth": '"450GB/s", "100Gb/s" or a number of bytes per second',
    "time": '"4us", "1.5ms" or a number of seconds',
    "rate": '"67T", "989G" or a number of operations per second',
}
_TEXT = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) ?([A-Za-z/]+)", re.ASCII)


def parse_quantity(value: object, kind: str, place: str) -> int | float:
    """Parse a size (integer bytes), bandwidth (bytes/s), time (seconds) or rate (operations/s)."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    match = _TEXT.fullmatch(value) if isinstance(value, str) else None
    factor = _UNITS[kind].get(match[2]) if match else None
    if match is None or factor is None:
        raise InvalidCluster(f"{place}: {value!r} is not a {kind}; write {_EXAMPLES[kind]}")
    exact = Fraction(Decimal(match[1])) * factor
    if kind != "size":
        return float(exact)
    if exact.denominator != 1:
        raise InvalidCluster(f"{place}: {value!r} is not an integer number of bytes")
    return int(exact)


def format_quantity(value: float, kind: str) -> str:
    """Format a quantity as TOML: with a unit if that is short and exact, else as a number."""
    for unit, factor in reversed(_UNITS[kind].items()):
        if "i" in unit or "b" in unit:
            continue
        shown = Fraction(value) / factor
        text = f"{float(shown):.6g}"
        if 1 <= shown < 1000 and "e" not in text:
            quoted = f"{text}{unit}"
            if parse_quantity(quoted, kind, "") == value:
                return f'"{quoted}"'
    return repr(value)
