"""DDP's wait at the end of backward, which no range labels."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline.record.sidecar import Backward, Collective, Sidecar
from paceline.trace.final_wait import final_waits
from paceline.trace.readers.chrome import read
from paceline.trace.readers.source import Source
from paceline.trace.view import RankView

US = 1000


def waited(document: Callable[..., Any], folder: Path, issue_us: float) -> tuple[float, float]:
    """The final wait in microseconds, where issuing the last bucket took `issue_us`.

    mm 0-10 | issue 20 .. | wait | copy 150-155; the transfer runs on gloo's thread from 21 to 152.
    """
    d = document().op("aten::mm", 0, 10).op("c10d::allreduce_", 20, issue_us)
    d.op("copy_bucket_to_grad", 150, 5)
    d.event("user_annotation", "gloo:all_reduce", 21, 131, tid=2)
    trace = read(Source(d.save(folder / "rank0.json")))
    sent = Collective(
        order=0, group="dp", sequence=0, op="all_reduce", bucket=0, thread=1, enqueue_ns=20_500
    )
    passing = Backward(thread=1, begin_ns=0, end_ns=160 * US, synced=True)
    view = RankView(trace, Sidecar(records=[sent, passing], truncated=False))
    transfer = [trace.names[n] for n in trace.events.name.tolist()].index("gloo:all_reduce")
    (found,) = final_waits(view, [(transfer, sent)])
    assert found.transfers == (transfer,)
    return found.begin_ns / US, found.end_ns / US


def test_the_wait_lasts_from_the_last_issue_to_the_first_op_after_the_transfer(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    assert waited(document, tmp_path, issue_us=5) == (25, 150)


def test_a_thread_put_aside_while_it_issues_does_not_wait_yet(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    """The stretch in the issuing call, 20.5 to 110, is longer than the wait that follows it."""
    assert waited(document, tmp_path, issue_us=90) == (110, 150)


def test_a_bucket_that_is_late_is_waited_for_before_the_last_one(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    """Two transfers end at 400 and 700; DDP copies each bucket away as it comes, 402 and 702.

    The first copy lies between two waits: without the first of them 380 us of it count as work.
    """
    d = document().op("aten::mm", 0, 10).op("c10d::allreduce_", 10, 5)
    d.op("c10d::allreduce_", 15, 5).op("copy_one", 402, 5).op("copy_two", 702, 5)
    d.event("user_annotation", "gloo:all_reduce", 12, 388, tid=2)
    d.event("user_annotation", "gloo:all_reduce", 18, 682, tid=3)
    trace = read(Source(d.save(tmp_path / "rank0.json")))
    sent = [
        Collective(
            order=i, group="dp", sequence=i, op="all_reduce", bucket=i, thread=1, enqueue_ns=at
        )
        for i, at in ((0, 10_500), (1, 15_500))
    ]
    passing = Backward(thread=1, begin_ns=0, end_ns=710 * US, synced=True)
    view = RankView(trace, Sidecar(records=[*sent, passing], truncated=False))
    names = [trace.names[n] for n in trace.events.name.tolist()]
    first, second = (row for row, name in enumerate(names) if name == "gloo:all_reduce")
    found = list(final_waits(view, [(first, sent[0]), (second, sent[1])]))
    assert [(f.begin_ns // US, f.end_ns // US) for f in found] == [(20, 402), (407, 702)]
    assert [f.transfers for f in found] == [(first,), (first, second)]
