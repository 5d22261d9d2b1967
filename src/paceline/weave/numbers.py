"""How programs compute: storage of each element type in NumPy, rounding, the random numbers.

16-bit types compute in 32 bits and round once an operation, as torch does. bfloat16, which NumPy
lacks, is held in float32 arrays whose values are bfloat16's.

Dropout's generator is Philox4x32-10 (Salmon et al. 2011): a pure function of seed, site and
global element index, so that slices, chunks and back ends draw the same numbers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.graph import DType
from paceline.weave.layout import Reduction

Array = NDArray[Any]
Index = Any
"""An int64 array of NumPy or torch."""

STORAGE: dict[DType, type[np.generic]] = {
    DType.FLOAT64: np.float64,
    DType.FLOAT32: np.float32,
    DType.FLOAT16: np.float16,
    DType.BFLOAT16: np.float32,
    DType.INT64: np.int64,
    DType.INT32: np.int32,
    DType.BOOL: np.bool_,
}
_COMPUTE: dict[DType, type[np.generic]] = {DType.FLOAT16: np.float32}


def store(values: Array, dtype: DType) -> Array:
    """Values rounded to the element type, in its storage."""
    with np.errstate(all="ignore"):
        rounded = np.asarray(values).astype(STORAGE[dtype])
    return round_bfloat16(rounded) if dtype is DType.BFLOAT16 else rounded


def load(values: Array, dtype: DType) -> Array:
    """Values in the type in which operations on `dtype` compute; numbers are rounded to it."""
    return values.astype(_COMPUTE.get(dtype, STORAGE[dtype]), copy=False)


def round_bfloat16(values: Array) -> NDArray[np.float32]:
    """float32 to the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(
        0xFFFF0000
    )
    return np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32))


def mul_add(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once in 32 bits; wider types round twice.

    A product of two 24-bit numbers is exact in double; the sum is rounded to odd there (Boldo and
    Melquiond 2008), so that the rounding to 32 bits which follows is the only one that counts.
    """
    if a.dtype != np.float32:
        return np.asarray(a * b + c)
    product, term = a.astype(np.float64) * b, c.astype(np.float64)
    total = np.asarray(product + term)
    back = total - product
    lost = (product - (total - back)) + (term - back)
    inexact = np.isfinite(total) & (lost != 0) & (total.view(np.int64) & 1 == 0)
    odd = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
    return np.asarray(np.where(inexact, odd, total)).astype(np.float32)


def keep_mask(seed: int, site: int, index: Index, p: float) -> Any:
    """Which elements Dropout keeps: word 0 of Philox with key = seed (low, high) and counter =
    (index low, index high, site, 0) is not below p * 2^32. `index` is an int64 array of NumPy or
    torch, and so is the answer."""
    counter = (index & _LOW, (index >> 32) & _LOW, index * 0 + site, index * 0)
    return philox((seed & _LOW, (seed >> 32) & _LOW), counter) >= threshold(p)


def threshold(p: float) -> int:
    """The smallest 32-bit word that is kept."""
    return int(p * 2**32)


_LOW = 0xFFFFFFFF


def philox(key: tuple[int, int], counter: tuple[Index, Index, Index, Index]) -> Any:
    """Word 0 of Philox4x32-10; 32-bit words in int64 arrays, whose products wrap."""
    (key0, key1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        left, right = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (
            ((right >> 32) & _LOW) ^ c1 ^ key0,
            right & _LOW,
            ((left >> 32) & _LOW) ^ c3 ^ key1,
            left & _LOW,
        )
        key0, key1 = (key0 + 0x9E3779B9) & _LOW, (key1 + 0xBB67AE85) & _LOW
    return c0


def identity(op: Reduction, dtype: np.dtype[Any]) -> Any:
    """What changes nothing when combined."""
    return dtype.type(identity_of(op, dtype.kind == "f"))


def identity_of(op: Reduction, floating: bool) -> float | int:
    """The same as a Python number; integers are 32 bits at least."""
    if op is Reduction.SUM:
        return 0
    largest = float("inf") if floating else 2**31 - 1
    return -largest if op is Reduction.MAX else largest
