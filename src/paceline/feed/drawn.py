"""`graph_of`: a run as a graph, whose loading is changed like any other op.

Of the training thread's batches each is a wait for storage, work, and a copy into the batch. A
sleeping accelerator is a stream, which takes no core; real computing is work on the thread. Steps
stay as they were, one by one: what large and small samples do to each other is the point.
"""

from dataclasses import asdict
from itertools import pairwise

from paceline.feed.errors import FeedError
from paceline.feed.run import Batch, Computing, FeedRun
from paceline.graph import DepKind, Facts, Graph, GraphBuilder, LaneKind, OpKind, Phase
from paceline.graph.facts import Loading


def graph_of(run: FeedRun) -> Graph:
    """Of a run whose training thread loads by itself: workers' work is not the thread's."""
    if run.loading.workers:
        raise FeedError(
            f"the run has {run.loading.workers} workers, of which its thread shows only waiting; "
            "a run with --workers 0 is what others are predicted from"
        )
    told = Loading(
        **asdict(run.hand_over),
        storage_bytes_per_s=run.storage_bytes_per_s,
        formats=run.formats,
    )
    facts = Facts(world_size=1, cores=run.cores, steps_overlap=True, loading=told)
    b = GraphBuilder({"source": "paceline io", "data": run.description.name}, facts)
    thread = b.lane(0, "training")
    accelerator = b.lane(0, "accelerator", kind=LaneKind.STREAM)
    for step, (batch, following) in enumerate(pairwise((*run.batches, None))):
        assert batch is not None
        _load(b, thread, batch, step)
        _compute(b, (thread, accelerator), run, step, batch)
        if following is not None:
            own = max(0, following.asked_ns - batch.done_ns)
            b.op("loop", thread, own, kind=OpKind.HOST, phase=Phase.FORWARD, step=step)
        b.op("step", thread, kind=OpKind.MARKER, phase=Phase.UPDATE, step=step)
    return b.build()


def _load(b: GraphBuilder, thread: int, batch: Batch, step: int) -> None:
    """Work is what the thread ran: what it waited for a core is its neighbours' doing. The sampler
    and Python between samples are part of it."""
    work = max(batch.ran_ns - batch.collate_worked_ns, batch.cost.worked_ns)
    for name, kind, dur, size in (
        ("storage", OpKind.WAIT, batch.cost.blocked_ns, batch.cost.read_bytes),
        ("read and decode", OpKind.DATA, work, 0),
        ("collate", OpKind.COPY, batch.collate_worked_ns, 0),
    ):
        b.op(name, thread, dur, kind=kind, phase=Phase.DATA, size_bytes=size, step=step)


def _compute(
    b: GraphBuilder, lanes: tuple[int, int], run: FeedRun, step: int, batch: Batch
) -> None:
    thread, accelerator = lanes
    if run.loading.computing is Computing.REAL:
        b.op("compute", thread, run.compute_ns, phase=Phase.FORWARD, step=step)
        return
    asked = b.op("launch", thread, kind=OpKind.HOST, phase=Phase.FORWARD, step=step)
    made = b.op("compute", accelerator, run.compute_ns, after=[asked], dep=DepKind.LAUNCH,
                phase=Phase.FORWARD, step=step)  # fmt: skip
    woken_ns = max(0, batch.done_ns - batch.got_ns - run.compute_ns)
    b.op("synchronise", thread, woken_ns, after=[made], dep=DepKind.WAIT, kind=OpKind.WAIT,
         phase=Phase.FORWARD, step=step)  # fmt: skip
