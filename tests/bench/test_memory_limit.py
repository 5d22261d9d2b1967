"""A training that wants more memory than it may have is told from one that is at fault."""

import subprocess
import sys

import pytest

from paceline.bench.memory_limit import (
    DOES_NOT_FIT,
    is_out_of_memory,
)


def test_refused_memory_is_known_by_how_it_is_spelled() -> None:
    torch_says = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate"
    assert is_out_of_memory(RuntimeError(torch_says))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("torch", "linux")
def test_a_batch_that_does_not_fit_ends_with_its_own_exit_code() -> None:
    line = "--batch 4096 --steps 1 --memory-limit 200000000"
    module = "paceline.bench.workloads.torch_gnn"
    small = [sys.executable, "-m", module, *line.split()]
    assert subprocess.run(small, capture_output=True).returncode == 0
    large = [*small[:4], "2000000", *small[5:]]
    done = subprocess.run(large, capture_output=True, text=True)
    assert done.returncode == DOES_NOT_FIT
    assert "gnn with batches of 2000000 does not fit" in done.stderr
