"""A reserve for the profiler's events: pages that were written before count no fault again."""

import subprocess
import sys

import pytest

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


@pytest.mark.skipif(sys.platform != "linux", reason="the heap is asked about Linux's page faults")
def test_what_fits_into_the_reserve_meets_no_fresh_page() -> None:
    with_reserve, without = (
        int(
            subprocess.run(
                [sys.executable, "-c", FAULTS, str(events)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for events in (100_000, 0)
    )
    assert without > 10_000  # 60 MB in pages of 4 KB
    assert with_reserve < without / 10
