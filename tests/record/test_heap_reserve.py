"""A reserve for what the profiler keeps: pages that were written before count no fault again."""

import subprocess
import sys

import pytest

from paceline.record.torch_heap import heap_bytes

GROWS = """
import resource, sys
from paceline.record.torch_heap import HeapReserve, heap_bytes
begun = heap_bytes()
reserve = HeapReserve(0, float(sys.argv[1]))
assert heap_bytes() >= begun + float(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
kept = [bytes(60_000) for _ in range(1000)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
reserve.release()
"""
FAULTS = """
import resource, sys
from paceline.record.torch_heap import HeapReserve
reserve = HeapReserve(float(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
kept = [bytes(60_000) for _ in range(1000)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
reserve.release()
reserve.release()
"""


def faults(script: str, size: int) -> int:
    """Of a process that keeps 60 MB behind a reserve of this size."""
    command = [sys.executable, "-c", script, str(size)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="the heap is asked about Linux's page faults")
@pytest.mark.parametrize(("script", "size"), [(FAULTS, 100_000), (GROWS, 80_000_000)])
def test_what_fits_into_the_reserve_meets_no_fresh_page(script: str, size: int) -> None:
    if script is GROWS and not heap_bytes():
        pytest.skip("this C library does not say how large its heap is")
    without = faults(script, 0)
    assert without > 10_000  # 60 MB in pages of 4 KB
    assert faults(script, size) < without / 10
