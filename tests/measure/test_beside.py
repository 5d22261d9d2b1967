"""What all-reduces take of processors at work, from the work that is lost beside them."""

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from paceline.cluster import Cluster
from paceline.machine import usable_cores
from paceline.measure import MeasureError
from paceline.measure.beside import FEW, MANY, Lost, beside, byte_ns, call_ns


def lost(few: Sequence[float], many: Sequence[float]) -> Lost:
    """Calls of 1 ms and of 100 ms, beside which such shares of the work are lost."""
    return {str(FEW): [(1e-3, each) for each in few], str(MANY): [(0.1, each) for each in many]}


def test_a_call_takes_the_share_that_is_lost_of_its_time() -> None:
    found = call_ns(lost([0.3, 0.2, 0.4], [0.1] * 3))
    assert (found.low, found.value, found.high) == pytest.approx((0.2e6, 0.3e6, 0.4e6))


@pytest.mark.parametrize(("workers", "sent"), [(2, MANY), (4, 1.5 * MANY)])
def test_a_byte_takes_what_is_lost_beside_a_call(workers: int, sent: float) -> None:
    found = byte_ns(lost([0.3] * 3, [0.1] * 3), workers)
    assert found == pytest.approx([(10e6 - 0.3e6) / sent] * 3)


def test_beside_work_is_what_a_byte_takes_more_than_without() -> None:
    def said(cluster: Cluster, command: Sequence[str]) -> str:
        assert cluster.workers == workers
        share = 0.02 if cluster.link.up_bytes_per_s > 100e6 else 0.1
        return "gloo says\n" + json.dumps({"lost": lost([0.3] * 3, [share] * 3)})

    workers = max(2, usable_cores())
    sent = 2 * (workers - 1) / workers * MANY
    found = beside(said, cpu_ns_per_byte=0.5)
    assert found.call_beside_ns.value == pytest.approx(0.3e6)
    assert found.fast_beside_ns_per_byte.value == pytest.approx((2e6 - 0.3e6) / sent - 0.5)
    assert found.slow_beside_ns_per_byte.value == pytest.approx((10e6 - 0.3e6) / sent - 0.5)
    assert beside(said, cpu_ns_per_byte=90.0).slow_beside_ns_per_byte.value == 0


def test_workers_that_say_nothing_are_refused_with_their_words() -> None:
    with pytest.raises(MeasureError, match="no room left"):
        beside(lambda cluster, command: "no room left", 1.0)


@pytest.mark.live
def test_real_workers_tell_shares_by_size() -> None:
    pytest.importorskip("torch")
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    module = [*start, "-m", "paceline.measure.torch_beside", "2", f"{FEW}x5", f"{MANY}x2"]
    run = subprocess.run(module, capture_output=True, text=True, check=True)
    found: Lost = json.loads(next(x for x in run.stdout.splitlines() if x.startswith("{")))["lost"]
    assert list(found) == [str(FEW), str(MANY)]
    assert all(seconds > 0 and share < 1 for turns in found.values() for seconds, share in turns)
