"""Quantities with units, read strictly: `100Gbps`, `10us`, `80GiB`, `1.41GHz`, `312TFLOPS`.

A rate in bits (`bps`) is kept as bytes a second; nothing is guessed from a bare number but zero.
"""

import re
from collections.abc import Callable

from paceline.errors import PacelineError

_SI = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}

RATES = {f"{p}bps": f / 8 for p, f in _SI.items()} | {f"{p}B/s": f for p, f in _SI.items()}
SIZES = {f"{p}B": f for p, f in (_SI | _BINARY).items()}
TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10, "h": 3.6e12}
CLOCKS = {f"{p}Hz": f for p, f in _SI.items()}
ARITHMETIC = {f"{p}FLOPS": f for p, f in _SI.items()}

_FORM = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z/]*)\s*")


class ClusterError(PacelineError):
    """A cluster cannot be read, or cannot be what it says."""


def rate(text: object, what: str = "rate") -> float:
    """Bytes a second from `10Gbps` or `50GB/s`."""
    return _read(text, RATES, what)


def size(text: object, what: str = "size") -> int:
    """Bytes from `80GiB` or `64KB`."""
    return round(_read(text, SIZES, what))


def duration(text: object, what: str = "time") -> int:
    """Nanoseconds from `10us`."""
    return round(_read(text, TIMES, what))


def clock(text: object, what: str = "clock") -> float:
    """Hertz from `1.41GHz`."""
    return _read(text, CLOCKS, what)


def arithmetic(text: object, what: str = "arithmetic") -> float:
    """Operations a second from `312TFLOPS`."""
    return _read(text, ARITHMETIC, what)


def show_rate(bytes_per_s: float) -> str:
    """`10Gbps` for 1.25e9: the shortest form that `rate` reads back exactly."""
    bits = {unit: factor for unit, factor in RATES.items() if unit.endswith("bps")}
    return _shortest(bytes_per_s, bits, rate) or f"{float(bytes_per_s)!r}B/s"


def show_size(size_bytes: int) -> str:
    return _shortest(size_bytes, SIZES, size) or f"{size_bytes}B"


def show_duration(dur_ns: int) -> str:
    return _shortest(dur_ns, TIMES, duration) or f"{dur_ns}ns"


def _read(text: object, units: dict[str, float], what: str) -> float:
    if isinstance(text, (int, float)) and text == 0:
        return 0.0
    form = _FORM.fullmatch(str(text))
    if form is None or form[2] not in units:
        raise ClusterError(
            f"{what} is {text!r}; give a number and one of these units: {', '.join(units)}"
        )
    return float(form[1]) * units[form[2]]


def _shortest(value: float, units: dict[str, float], read: Callable[[object], float]) -> str:
    """The shortest of the forms that are read back exactly; empty where there is none."""
    forms = [f"{value / factor:.12g}{unit}" for unit, factor in units.items()]
    return min((form for form in forms if read(form) == value), key=len, default="")
