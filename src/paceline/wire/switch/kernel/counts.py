"""What a kernel switch did at a port: packets passed, marked and dropped, by code."""

import hashlib
import os
import struct
from dataclasses import dataclass

from paceline.wire.errors import WireError
from paceline.wire.switch.codes import IMPORTANCES, PRIORITIES, Code, code_of
from paceline.wire.switch.kernel import bpf
from paceline.wire.switch.kernel.layout import CELL_BYTES, CELLS, VALUE_BYTES


@dataclass(frozen=True)
class Cell:
    """Packets of one code; None is the code of plain ones."""

    code: Code | None
    passed: int
    marked: int
    dropped: int


def map_name(lab: str, node: str, device: str) -> str:
    """The kernel keeps 15 characters of a map's name."""
    digest = hashlib.sha256(f"{lab}/{node}/{device}".encode()).hexdigest()
    return f"pl_{digest[:12]}"


def counts(lab: str, node: str, device: str) -> tuple[Cell, ...]:
    """Of a port of a standing lab; codes that never came are left out."""
    descriptor = bpf.find_map(map_name(lab, node, device))
    if descriptor is None:
        raise WireError(f"lab {lab} has no switch at {node}'s port {device}; is it standing?")
    try:
        return cells(bpf.read_map(descriptor, VALUE_BYTES))
    finally:
        os.close(descriptor)


def cells(value: bytes) -> tuple[Cell, ...]:
    rows = (
        (dscp, struct.unpack_from("<QQQ", value, CELLS + CELL_BYTES * dscp))
        for dscp in range(PRIORITIES * IMPORTANCES)
    )
    return tuple(Cell(code_of(dscp << 2), *row) for dscp, row in rows if any(row))
