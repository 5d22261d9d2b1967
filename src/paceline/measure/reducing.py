"""The all-reduce sweep among workers of this machine."""

from dataclasses import dataclass

from paceline.graph.kinds import DType
from paceline.launch import LaunchError, first_of
from paceline.measure.calibration import Overlap, Sweep
from paceline.measure.codec_times import Adding
from paceline.measure.errors import MeasureError


@dataclass(frozen=True)
class Reduced:
    """Times of gloo's all-reduce, how overlap slows it and computing, and what it adds slowly."""

    sweep: Sweep
    overlap: Overlap
    adding: tuple[Adding, ...]


def all_reduce(workers: int, repeats: int) -> Reduced:
    """Among workers of this machine."""
    try:
        found = first_of(workers, "paceline.measure.torch_reducing", repeats)
    except LaunchError as problem:
        raise MeasureError(
            f"the all-reduce sweep: {problem}. Try --workers 1 to leave it out."
        ) from None
    sweep = Sweep(tuple(found["sizes"]), tuple(found["times_ns"]))
    adding = tuple(
        Adding(
            DType[name.upper()],
            tuple(told["sizes"]),
            tuple(told["times_ns"]),
            tuple(told["float32_ns"]),
        )
        for name, told in found["adding"].items()
    )
    return Reduced(sweep, Overlap(**found["overlap"]), adding)
