"""The noisy neighbour that benchmarks are run beside."""

import os
import subprocess
import sys
import time
from itertools import islice, pairwise
from pathlib import Path

import pytest
from benchmarks.noise_maker import LONGEST_S, SHORTEST_S, Hog, Kind, Noise, beside, plan, plan_until

from benchmarks import noise_maker


def test_the_same_seed_makes_the_same_noise_and_another_makes_other() -> None:
    one, again, other = (list(islice(plan(seed), 50)) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_bursts_last_from_ten_milliseconds_to_ten_seconds_and_never_fill_half_of_the_time() -> None:
    bursts = list(islice(plan(3), 500))
    assert all(SHORTEST_S <= burst.busy_s <= LONGEST_S for burst in bursts)
    for before, after in pairwise(bursts):
        assert after.begin_s >= before.begin_s + before.busy_s + after.busy_s
    end = bursts[-1].begin_s + bursts[-1].busy_s
    assert 0.05 * end < sum(burst.busy_s for burst in bursts) <= 0.5 * end


def test_a_plan_for_some_seconds_holds_the_bursts_that_begin_in_them() -> None:
    bursts = plan_until(5, 100.0)
    assert bursts == list(islice(plan(5), len(bursts)))
    assert all(burst.begin_s < 100.0 for burst in bursts)
    assert next(islice(plan(5), len(bursts), None)).begin_s >= 100.0


@pytest.mark.parametrize("kind", list(Kind))
def test_a_neighbour_of_each_kind_lives_as_long_as_the_block(kind: Kind) -> None:
    with beside(Noise(kind, seed=1, memory_bytes=1 << 20)) as maker:
        assert maker.poll() is None
    assert maker.poll() is not None


def test_a_neighbour_does_not_outlive_who_is_killed_beside_it() -> None:
    script = (
        "import time; from benchmarks.noise_maker import Kind, Noise, beside\n"
        "with beside(Noise(Kind.BURSTS, 1)) as maker:\n"
        "    print(maker.pid, flush=True); time.sleep(60)"
    )
    root = Path(noise_maker.__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        maker = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 30
    while _lives(maker):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    """One that has ended and waits for its parent is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_neighbour_ends_by_itself_after_its_seconds() -> None:
    command = [sys.executable, str(Path(noise_maker.__file__)), "--seconds", "0.2", "--seed", "2"]
    subprocess.run(command, check=True, timeout=60, env=dict(os.environ))


def test_the_hog_goes_through_all_of_its_memory_and_begins_anew() -> None:
    hog = Hog(3 << 20)
    for _ in range(10):
        hog.copy()
    Hog(10).copy()
