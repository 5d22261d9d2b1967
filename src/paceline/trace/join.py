"""Communication across ranks: which members belong together, and how long each transfer took.

Members are joined by group and sequence; where a trace lacks either, by order within the step, and
a note says so. A message that names no peer is joined to nothing. A transfer begins when its last
member has come; what a member waited before that is not its duration.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.errors import TraceError
from paceline.graph import NONE, Collective, Group, OpKind
from paceline.trace.assemble import RankBlock
from paceline.trace.clocks import Clock
from paceline.trace.trace import Bool, Int64

EVERYONE: Final = "all ranks"
"""Name of the group where a trace does not tell any."""


@dataclass(frozen=True, eq=False)
class Members:
    """One row a communication op, over all ranks."""

    block: Int64  # which rank's block
    op: Int64  # op in that block
    rank: Int64
    step: Int64
    group: Int64  # index into the groups' names
    sequence: Int64  # NONE unknown
    collective: Int64
    dtype: Int64
    size_bytes: Int64
    peer: Int64  # the other side of a message; NONE for collectives
    sends: Int64  # 1 for the sending side of a message
    start_ns: Int64
    end_ns: Int64

    def __len__(self) -> int:
        return len(self.op)

    @property
    def peerless(self) -> Bool:
        """Messages that do not say with whom."""
        alone: Bool = (self.collective == Collective.POINT_TO_POINT) & (self.peer == NONE)
        return alone


@dataclass(frozen=True, eq=False)
class Joined:
    """What joining adds to the ops of all blocks, aligned with `members`."""

    members: Members
    instance: Int64
    group: Int64  # row of `groups`
    dur_ns: Int64
    kind: Int64  # OpKind
    size_bytes: Int64
    groups: tuple[Group, ...]
    notes: tuple[str, ...]


def join(blocks: Sequence[RankBlock], clocks: Sequence[Clock]) -> Joined:
    """Match the communication of all ranks; `clocks` bring their times together."""
    members, names = _members(blocks, clocks)
    number = _numbered(members)
    instance = _instances(members, number)
    _check_alike(members, instance, blocks)
    last_start = _per_instance(np.maximum, members.start_ns, instance)
    size = _per_instance(np.maximum, members.size_bytes, instance)
    groups, group, notes = _groups(blocks, members, instance, names)
    notes = (*notes, *_concluded(members, instance))
    return Joined(
        members,
        instance,
        group,
        np.maximum(members.end_ns - last_start, 0),
        _kinds(members, instance),
        size,
        groups,
        notes,
    )


def _members(blocks: Sequence[RankBlock], clocks: Sequence[Clock]) -> tuple[Members, list[str]]:
    """The communication ops of all blocks, with group names made common."""
    index: dict[str, int] = {}
    columns = [
        _of_block(number, block, clock, index)
        for number, (block, clock) in enumerate(zip(blocks, clocks))
    ]
    return Members(*np.concatenate(columns, axis=1)), list(index)


def _of_block(number: int, block: RankBlock, clock: Clock, index: dict[str, int]) -> Int64:
    trace, issued = block.view.trace, block.view.trace.collectives
    event = issued.event.astype(np.int64)
    op = np.where(event == NONE, NONE, block.op_of_event[event])
    kept = op != NONE
    event, op = event[kept], op[kept]
    name = [trace.names[i] if i != NONE else EVERYONE for i in issued.group[kept].tolist()]
    group = np.array([index.setdefault(text, len(index)) for text in name], np.int64)
    rank = np.full(len(op), trace.rank, np.int64)
    row = np.full(len(op), number, np.int64)
    starts = block.rows.start_ns[op]
    return np.stack(
        [
            row,
            op,
            rank,
            block.rows.step[op].astype(np.int64),
            group,
            issued.sequence[kept],
            issued.op[kept].astype(np.int64),
            issued.dtype[kept].astype(np.int64),
            issued.size_bytes[kept],
            issued.peer[kept].astype(np.int64),
            issued.sends[kept].astype(np.int64),
            clock.at(starts),
            clock.at(starts + block.rows.dur_ns[op]),
        ]
    )


def _numbered(members: Members) -> Int64:
    """Sequence of each member in its group: recorded, or by order within its step on its rank."""
    number = members.sequence.copy()
    known = number != NONE
    keys = (members.start_ns, members.collective, members.step, members.group, members.block)
    order = np.lexsort(keys)
    same = np.ones(len(order), np.bool_)
    for column in (members.collective, members.step, members.group, members.block):
        same[1:] &= column[order][1:] == column[order][:-1]
    first = np.maximum.accumulate(np.where(~same, np.arange(len(order)), 0))
    if len(order):
        same[0] = False
        count = np.empty(len(order), np.int64)
        count[order] = np.arange(len(order)) - first
        number = np.where(known, number, count)
    return number


def _instances(members: Members, number: Int64) -> Int64:
    """An id for each set of members that belong together, in order of their first start."""
    if not len(members):
        return np.zeros(0, np.int64)
    message, sends = members.peer != NONE, members.sends == 1
    sender = np.where(sends, members.rank, members.peer)
    receiver = np.where(sends, members.peer, members.rank)
    known = members.sequence != NONE
    alone = np.where(members.peerless, np.arange(len(members)), NONE)
    key = np.stack(
        [
            members.group,
            np.where(known, NONE, members.step),
            np.where(known & ~message, NONE, members.collective),
            np.where(message, sender, NONE),
            np.where(message, receiver, NONE),
            number,
            alone,
        ]
    )
    _, instance = np.unique(key, axis=1, return_inverse=True)
    return instance.reshape(-1).astype(np.int64)


def _per_instance(fold: np.ufunc, values: Int64, instance: Int64) -> Int64:
    """A value of each member's instance: the greatest of its members', or their sum."""
    if not len(values):
        return values
    start = 0 if fold is np.add else np.iinfo(np.int64).min
    found = np.full(int(instance.max()) + 1, start, np.int64)
    fold.at(found, instance, values)
    return found[instance]


def _check_alike(members: Members, instance: Int64, blocks: Sequence[RankBlock]) -> None:
    """Members that disagree about what they do come from different jobs, or from other steps."""
    most = _per_instance(np.maximum, members.collective, instance)
    wrong = np.flatnonzero(most != members.collective)
    if len(wrong):
        one = int(wrong[0])
        other = int(
            np.flatnonzero((instance == instance[one]) & (members.collective == most[one]))[0]
        )
        mine = Collective(int(members.collective[one])).name.lower()
        theirs = Collective(int(most[one])).name.lower()
        raise TraceError(
            f"rank {members.rank[one]} runs {mine} where rank {members.rank[other]} runs {theirs} "
            f"(number {members.sequence[one]} of their group): these traces are not of one job. "
            f"Import only traces of one run; given: {', '.join(str(b.view.trace) for b in blocks)}"
        )


def _groups(
    blocks: Sequence[RankBlock], members: Members, instance: Int64, names: list[str]
) -> tuple[tuple[Group, ...], Int64, tuple[str, ...]]:
    """A group row for each set of ranks that was recorded together, and each member's row."""
    known = {name: ranks for block in blocks for name, ranks in block.view.trace.groups.items()}
    rows: dict[tuple[str, tuple[int, ...]], int] = {}
    row_of = np.zeros(int(instance.max(initial=-1)) + 1, np.int64)
    order, peerless = np.argsort(instance, kind="stable"), members.peerless
    for chunk in _runs(instance, order):
        name = names[members.group[chunk[0]]]
        ranks = tuple(sorted(members.rank[chunk].tolist()))
        key = (name, known.get(name) or ranks if peerless[chunk[0]] else ranks)
        row_of[instance[chunk[0]]] = rows.setdefault(key, len(rows))
    groups = tuple(Group(name, ranks) for name, ranks in rows)
    group = row_of[instance] if len(instance) else np.zeros(0, np.int64)
    return groups, group, tuple(_missing(groups, known))


def _runs(instance: Int64, order: Int64) -> list[Int64]:
    """Rows of each instance."""
    return np.split(order, np.flatnonzero(np.diff(instance[order])) + 1) if len(order) else []


def _missing(groups: tuple[Group, ...], known: dict[str, tuple[int, ...]]) -> list[str]:
    """Notes on groups of which some members were not recorded."""
    notes = []
    for group in groups:
        absent = sorted(set(known.get(group.name, ())) - set(group.ranks))
        if absent:
            notes.append(
                f"group {group.name!r}: ranks {absent} were not imported, so waiting for them "
                "counts as transfer"
            )
    return sorted(set(notes))


def _concluded(members: Members, instance: Int64) -> list[str]:
    """Notes on what was joined by order alone, and on what could not be joined."""
    lonely = int(members.peerless.sum())
    several = _per_instance(np.add, np.ones(len(members), np.int64), instance) > 1
    ordered = len(np.unique(instance[several & (members.sequence == NONE)]))
    notes = []
    if ordered:
        notes.append(
            f"{ordered} collectives and messages are joined by their order in the step (inferred): "
            "the traces tell no sequence of them"
        )
    if lonely:
        notes.append(
            f"{lonely} sends and receives name no peer and are joined to nothing: what they waited "
            "counts as transfer"
        )
    return notes


def _kinds(members: Members, instance: Int64) -> Int64:
    """Collectives, the two ends of a message, or a transfer where the other end is missing."""
    kind = np.where(members.sends == 1, OpKind.SEND, OpKind.RECV)
    both = _per_instance(np.add, np.ones(len(members), np.int64), instance) == 2
    kind = np.where(both, kind, OpKind.TRANSFER)
    kind = np.where(members.peer == NONE, OpKind.COLLECTIVE, kind)
    return np.where(members.peerless, OpKind.TRANSFER, kind).astype(np.int64)
