"""Quantities as people read them: three digits and a unit."""

_TIMES = ((10**9, "s"), (10**6, "ms"), (10**3, "us"), (1, "ns"))
_SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "bytes"))


def duration(ns: float) -> str:
    """1234567 is `1.23 ms`."""
    return _scaled(ns, _TIMES)


def size(count: float) -> str:
    """Decimal units: 1,500,000 bytes are `1.50 MB`."""
    return _scaled(count, _SIZES)


def share(part: float, whole: float) -> str:
    """A part of a whole in per cent; empty where it rounds to nothing."""
    fraction = part / whole if whole else 0.0
    return f"{100 * fraction:.1f} %" if abs(fraction) >= 0.0005 else ""


def _scaled(value: float, units: tuple[tuple[int, str], ...]) -> str:
    factor, unit = next((row for row in units if abs(value) >= row[0]), units[-1])
    scaled = value / factor
    digits = 0 if factor == 1 else 2 if abs(scaled) < 10 else 1 if abs(scaled) < 100 else 0
    return f"{scaled:,.{digits}f} {unit}"
