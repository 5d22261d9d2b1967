"""CRC-32C (Castagnoli), on long data many stretches at once.

A checksum is linear: the registers of stretches, each begun at zero, are joined by moving one over
the length of the next (a 32 x 32 matrix of bits) and adding both without carry.
"""

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL: Final = 0x82F63B78
_SHORT: Final = 512  # bytes: shorter data is done byte by byte
_STRETCH: Final = 64  # bytes of a stretch
_ALL: Final = 0xFFFFFFFF

Words = NDArray[np.uint32]


def crc32c(data: bytes | bytearray | memoryview) -> int:
    values = np.frombuffer(data, np.uint8)
    if len(values) < _SHORT:
        return _one_by_one(values.tolist()) ^ _ALL
    return _joined(_registers(_stretched(values))) ^ _ALL


def _one_by_one(values: list[int]) -> int:
    register, table = _ALL, _table().tolist()
    for value in values:
        register = table[(register ^ value) & 0xFF] ^ register >> 8
    return register


def _stretched(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Zeros in front change nothing where the register begins at zero, and to begin with all bits
    set is to flip those of the first four bytes."""
    count = -(-len(values) // _STRETCH)
    whole = np.zeros(count * _STRETCH, np.uint8)
    begin = len(whole) - len(values)
    whole[begin:] = values
    whole[begin : begin + 4] ^= 0xFF
    return whole.reshape(count, _STRETCH)


def _registers(stretches: NDArray[np.uint8]) -> Words:
    """Each stretch's register, begun at zero."""
    table, found = _table(), np.zeros(len(stretches), np.uint32)
    for column in np.ascontiguousarray(stretches.T).astype(np.uint32):
        found = table[(found ^ column) & 0xFF] ^ found >> 8
    return found


def _joined(registers: Words) -> int:
    """Neighbours are joined until one is left."""
    length = _STRETCH
    while len(registers) > 1:
        if len(registers) % 2:
            registers = np.append(np.uint32(0), registers)
        registers = _moved(registers[::2], length) ^ registers[1::2]
        length *= 2
    return int(registers[0])


def _moved(registers: Words, length: int) -> Words:
    """As if so many zero bytes followed."""
    tables = _move_tables(length)
    parts = (tables[i][registers >> 8 * i & 0xFF] for i in range(4))
    found: Words = np.bitwise_xor.reduce(np.stack(list(parts)))
    return found


@cache
def _move_tables(length: int) -> Words:
    """By byte of a register: what each of its values becomes."""
    bits = _move_bits(length)
    values = np.arange(256, dtype=np.uint32)
    tables = np.zeros((4, 256), np.uint32)
    for byte in range(4):
        for bit in range(8):
            tables[byte] ^= np.where(values >> bit & 1, bits[8 * byte + bit], 0).astype(np.uint32)
    return tables


@cache
def _move_bits(length: int) -> tuple[int, ...]:
    """What each single bit becomes under `length` zero bytes, a power of two: by halves."""
    if length == 1:
        table = _table().tolist()
        return tuple(table[(1 << bit) & 0xFF] ^ (1 << bit) >> 8 for bit in range(32))
    half = _move_bits(length // 2)
    return tuple(_through(half, each) for each in half)


def _through(bits: tuple[int, ...], value: int) -> int:
    found = 0
    for bit in range(32):
        if value >> bit & 1:
            found ^= bits[bit]
    return found


@cache
def _table() -> Words:
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, values >> 1 ^ _POLYNOMIAL, values >> 1).astype(np.uint32)
    return values
