"""What the wrappers around torch's communication note, and what they leave alone."""

import os
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
import torch.distributed as dist

from paceline.record.torch_comms import UNSEEN, CommunicationWatch


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[CommunicationWatch]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    watching = CommunicationWatch(lambda record: None)
    watching.install([])
    yield watching
    watching.remove()
    dist.destroy_process_group()


def test_a_wait_is_joined_to_the_call_that_issued_the_work(watch: CommunicationWatch) -> None:
    first, second = (dist.all_reduce(torch.ones(4), async_op=True) for _ in range(2))
    second.wait()
    first.wait()
    issued = [call.work for call in watch.noted.calls]
    assert len(set(issued)) == 2
    assert UNSEEN not in issued
    assert [wait.work for wait in watch.noted.waits] == issued[::-1]


def test_a_wait_for_work_that_was_issued_before_is_noted_without_a_number(
    watch: CommunicationWatch,
) -> None:
    early = dist.all_reduce(torch.ones(4), async_op=True)
    watch.clear()
    early.wait()
    assert [wait.work for wait in watch.noted.waits] == [UNSEEN]


def test_watched_work_and_its_tensors_are_freed_as_if_nobody_watched(
    watch: CommunicationWatch,
) -> None:
    tensor = torch.ones(1000)
    alive = weakref.ref(tensor)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    of_work = weakref.ref(work)
    del tensor, work
    end = time.monotonic() + 10  # gloo's thread may let go of them a moment later
    while (alive() is not None or of_work() is not None) and time.monotonic() < end:
        os.sched_yield()
    assert alive() is None
    assert of_work() is None
    assert len(watch.noted.calls) == 1


def test_what_is_issued_awaited_and_passed_in_a_rest_is_not_noted(
    watch: CommunicationWatch,
) -> None:
    def communicate() -> int:
        dist.all_reduce(torch.ones(4), async_op=True).wait()
        (torch.ones(1, requires_grad=True) * 2).backward()
        return time.time_ns()

    noted = (watch.noted.calls, watch.noted.waits, watch.noted.backwards)
    during = communicate()
    watch.rest()
    rested = communicate()
    assert [len(each) for each in noted] == [1, 1, 1]
    watch.resume()
    again = communicate()
    watch.rest()
    assert [len(each) for each in noted] == [2, 2, 2]
    assert [watch.watched_at(at) for at in (during, rested, again)] == [True, False, True]
