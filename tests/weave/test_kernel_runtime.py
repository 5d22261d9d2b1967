"""What generated kernels stand on: how ranks share the chunks of a step."""

import ctypes
from pathlib import Path

import pytest

from paceline.weave.cpu import compile as compiling
from paceline.weave.host import HostSettings

HERE = HostSettings.here()
RUNTIME = Path(compiling.__file__).with_name("kernel_runtime.hpp")
CLAIM = """
// Rank 0 of two, in step `epoch`, on a cursor that stands at `seen`: what it may take.
extern "C" int64_t claimed(uint32_t epoch, uint64_t seen) {
    uint64_t cursors[2 * paceline::CURSOR_STRIDE] = {seen};
    paceline::Team team{};
    team.size = 2;
    team.epoch = epoch;
    team.chunks = 8;
    team.cursor = cursors;
    return paceline::claim(team, 0, 0);
}
"""


@pytest.mark.skipif(compiling.compiler(HERE) is None, reason="no C++ compiler here")
def test_a_rank_takes_nothing_of_a_step_that_its_peer_has_left_behind() -> None:
    """Else it waits for a word that the peer, a step further, gives no more."""
    claimed = compiling.load(RUNTIME.read_text() + CLAIM, HERE).claimed
    claimed.argtypes, claimed.restype = [ctypes.c_uint32, ctypes.c_uint64], ctypes.c_int64
    assert claimed(5, 4 << 32 | 4) == 0  # the step before: all chunks are there to take
    assert claimed(5, 5 << 32 | 2) == 2
    assert claimed(5, 5 << 32 | 4) == -1  # the share's four chunks are taken
    assert claimed(5, 6 << 32 | 1) == -1
    assert claimed(1, 0) == 0
