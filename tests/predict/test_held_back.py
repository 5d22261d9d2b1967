"""A job that stays where it was recorded waits for its cores there as it did."""

import pytest

from paceline.graph import Axis, Facts, Graph, GraphBuilder, LaneKind, OpKind, Phase, check
from paceline.graph.kinds import Collective, DepKind, DType
from paceline.predict import predict
from paceline.predict.held_back import stretch
from paceline.strategies.uneven_batches import UnevenBatches

MS = 1_000_000
STEPS = 4


def throttled(waits_ms: tuple[float, ...], plain_step_ms: float = 0.0) -> Graph:
    """Workers of 10 ms of work each, of which each waits for its core for so long."""
    facts = Facts(len(waits_ms), plain_step_ns=round(plain_step_ms * MS))
    b = GraphBuilder(facts=facts)
    group = b.group("0", tuple(range(len(waits_ms))), Axis.DATA)
    lanes = [
        (b.lane(rank, "main"), b.lane(rank, "gloo", kind=LaneKind.COMM_THREAD))
        for rank in range(len(waits_ms))
    ]
    for step in range(STEPS):
        instance = b.instance()
        for (main, gloo), wait_ms in zip(lanes, waits_ms):
            b.op("addmm", main, 10 * MS, phase=Phase.FORWARD, step=step)
            if wait_ms:
                b.op("waiting for a core", main, round(wait_ms * MS), kind=OpKind.CORE_WAIT,
                     phase=Phase.FORWARD, step=step)  # fmt: skip
            asked = b.op("c10d", main, kind=OpKind.HOST, phase=Phase.COMMUNICATION, step=step)
            sent = b.op(
                "gloo:all_reduce", gloo, MS, after=[asked], dep=DepKind.LAUNCH,
                kind=OpKind.COLLECTIVE, phase=Phase.COMMUNICATION, size_bytes=4, step=step,
                collective=Collective.ALL_REDUCE, dtype=DType.FLOAT32, group=group,
                instance=instance,
            )  # fmt: skip
            b.op("wait", main, after=[sent], dep=DepKind.WAIT, kind=OpKind.WAIT, step=step)
    return check(b.build())


def test_a_workers_work_is_longer_by_what_its_threads_waited() -> None:
    assert stretch(throttled((0.0, 5.0, 20.0))) == pytest.approx([1.0, 1.5, 3.0])


def test_where_it_stays_a_step_is_that_of_the_worker_that_waits_longest() -> None:
    assert predict(throttled((0.0, 20.0))).step_ns == pytest.approx(31 * MS, rel=0.01)


def test_a_step_that_waits_for_cores_is_still_as_long_as_a_plain_one() -> None:
    assert predict(throttled((0.0, 20.0), 30)).step_ns == pytest.approx(30 * MS, rel=0.02)


def test_less_for_the_worker_that_is_kept_from_its_core_shortens_the_step() -> None:
    """Quotas of 0.9, 0.6 and 0.3 of a core: equal parts take 10 / 0.3, the best ones 30 / 1.8."""
    quotas = (0.9, 0.6, 0.3)
    job = throttled(tuple(10 / quota - 10 for quota in quotas))
    before, after = predict(job), predict(job, [UnevenBatches(quotas)])
    assert before.step_ns == pytest.approx((10 / 0.3 + 1) * MS, rel=0.01)
    assert after.step_ns == pytest.approx((30 / 1.8 + 1) * MS, rel=0.01)
