"""What a rank issued in the recorded steps: calls and flight entries joined and numbered."""

from collections.abc import Iterator
from typing import Final

import msgspec
import torch.distributed as dist

from paceline.record.sidecar import Backward, Collective, Record, RecordedBucket, Wait
from paceline.record.torch_comms import BLOCKING, MESSAGES, UNSEEN, Call, NotedEvents, Waiting
from paceline.record.torch_flight import Flight

STRETCH: Final = 1_000_000
"""More than the messages of a stretch of recorded steps."""


def issued(
    noted: NotedEvents, flights: list[Flight], buckets: list[RecordedBucket]
) -> Iterator[Record]:
    """All communication in issue order, then the waits for it."""
    messages = [call for call in noted.calls if call.name in MESSAGES]
    calls = [call for call in noted.calls if call.name not in MESSAGES]
    everything: list[Flight | Call] = sorted([*flights, *messages], key=_issued_at)
    order_of = {id(item): order for order, item in enumerate(everything)}
    caller_of = {id(flight): _caller(flight, calls) for flight in flights}
    bucket_of = _buckets(noted.backwards, flights, len(buckets))
    yield from _messages(messages, order_of, _by_work(noted.waits))
    for flight in flights:
        order, call = order_of[id(flight)], caller_of[id(flight)]
        yield _collective(order, flight, call, bucket_of.get(id(flight), -1))
    order_of_work = {call.work: order_of[id(call)] for call in messages}
    for flight in flights:
        call = caller_of[id(flight)]
        if call is not None:
            order_of_work[call.work] = order_of[id(flight)]
            if call.name == BLOCKING:
                yield _blocked(order_of[id(flight)], flight, call)
    for wait in noted.waits:
        order = UNSEEN if wait.work == UNSEEN else order_of_work.get(wait.work, UNSEEN)
        yield Wait(
            kind=wait.kind,
            thread=wait.thread,
            begin_ns=wait.begin_ns,
            end_ns=wait.end_ns,
            order=order,
        )


def _by_work(waits: list[Waiting]) -> dict[int, Waiting]:
    return {wait.work: wait for wait in waits if wait.work != UNSEEN}


def _issued_at(item: Flight | Call) -> int:
    return item.created_ns if isinstance(item, Flight) else item.begin_ns


def _caller(flight: Flight, calls: list[Call]) -> Call | None:
    """The innermost Python call inside which a collective was issued."""
    inside = [c for c in calls if c.begin_ns <= flight.created_ns <= c.end_ns]
    return max(inside, key=lambda c: c.begin_ns, default=None)


def _buckets(passes: list[Backward], flights: list[Flight], buckets: int) -> dict[int, int]:
    """Which bucket's gradients a collective of a synchronised backward pass carries.

    Buckets are launched in order; where a hook makes several collectives of one bucket, they
    share it evenly.
    """
    found: dict[int, int] = {}
    for one in passes if buckets else ():
        sent = [f for f in flights if one.synced and one.begin_ns <= f.created_ns <= one.end_ns]
        found |= {id(f): place * buckets // len(sent) for place, f in enumerate(sent)}
    return found


def _collective(order: int, flight: Flight, call: Call | None, bucket: int) -> Collective:
    return Collective(
        order=order,
        group=flight.group,
        sequence=flight.sequence,
        op=flight.op,
        executed=flight.executed,
        size_bytes=flight.size_bytes,
        output_bytes=flight.output_bytes,
        dtype=flight.dtype,
        bucket=bucket,
        thread=call.thread if call else flight.thread,
        enqueue_ns=flight.created_ns,
        enqueue_end_ns=call.end_ns if call and call.name != BLOCKING else 0,
    )


def _blocked(order: int, flight: Flight, call: Call) -> Wait:
    return Wait(
        kind="work",
        thread=call.thread,
        begin_ns=flight.created_ns,
        end_ns=call.end_ns,
        order=order,
    )


def _messages(
    calls: list[Call], order_of: dict[int, int], waits: dict[int, Waiting]
) -> Iterator[Collective]:
    """Sends and receives, numbered per group, direction and peer, anew in each stretch of recorded
    steps: what crosses the border of one leaves the others in order."""
    counts: dict[tuple[int, str, str, int], int] = {}
    for call in calls:
        found = _message(order_of[id(call)], call, waits.get(call.work))
        key = (call.stretch, found.group, found.op, found.peer)
        counts[key] = counts.get(key, call.stretch * STRETCH - 1) + 1
        yield msgspec.structs.replace(found, sequence=counts[key])


def _message(order: int, call: Call, wait: Waiting | None) -> Collective:
    """One side of a message. Nobody stamps its end: it is taken to last until the wait for it
    returned, where somebody waited, for that is when the host could go on."""
    op = "recv" if call.name.startswith("recv") else "send"
    ranks = dist.get_process_group_ranks(call.group)
    return Collective(
        order=order,
        group=call.group.group_name,
        sequence=0,
        op=op,
        executed=op,
        size_bytes=call.size_bytes,
        output_bytes=call.size_bytes,
        dtype=call.dtype,
        peer=ranks[call.peer] if call.peer >= 0 else -1,
        tag=call.tag,
        thread=call.thread,
        enqueue_ns=call.begin_ns,
        enqueue_end_ns=call.end_ns,
        start_ns=call.begin_ns,
        end_ns=wait.end_ns if wait else call.end_ns,
    )
