"""Dependencies as rows: to add, to drop and to look up many at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.graph.graph import Bool, Dependencies, Graph, Int64
from paceline.graph.kinds import DepKind


@dataclass(frozen=True, eq=False)
class Links:
    """One row a dependency: `op` waits for `src`."""

    op: Int64
    src: Int64
    kind: Int64
    inferred: Bool

    @staticmethod
    def of(graph: Graph) -> "Links":
        deps = graph.deps
        op = np.repeat(np.arange(len(graph)), np.diff(deps.ptr))
        return Links(op, deps.src.astype(np.int64), deps.kind.astype(np.int64), deps.inferred)

    @staticmethod
    def all_of(op: Int64, src: Int64, kind: DepKind) -> "Links":
        """Links of one kind, none inferred."""
        return Links(op, src, np.full(len(op), kind, np.int64), np.zeros(len(op), np.bool_))

    @staticmethod
    def by_kind(rows: Sequence[tuple[DepKind, Int64, Int64]]) -> "Links":
        """Links of several kinds (kind, ops, what each waits for), none inferred: of equal ones
        that of the lowest kind comes first."""
        ordered = sorted(rows, key=lambda row: row[0])
        none = np.zeros(0, np.int64)
        op = np.concatenate([none, *(each for _, each, _ in ordered)])
        src = np.concatenate([none, *(each for _, _, each in ordered)])
        kind = np.repeat([k for k, _, _ in ordered], [len(each) for _, each, _ in ordered])
        return Links(op, src, kind.astype(np.int64), np.zeros(len(op), np.bool_))

    def where(self, chosen: Bool | Int64) -> "Links":
        rows = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        return Links(self.op[rows], self.src[rows], self.kind[rows], self.inferred[rows])

    def joined(self, other: "Links") -> "Links":
        return Links.together([self, other])

    @staticmethod
    def together(parts: "Sequence[Links]") -> "Links":
        """One behind the other."""
        return Links(
            np.concatenate([part.op for part in parts]),
            np.concatenate([part.src for part in parts]),
            np.concatenate([part.kind for part in parts]),
            np.concatenate([part.inferred for part in parts]),
        )

    def moved(self, place: Int64) -> "Links":
        """Both ends under new ids."""
        return Links(place[self.op], place[self.src], self.kind, self.inferred)

    def columns(self, count: int) -> Dependencies:
        """CSR form for a graph of so many ops; of equal links the first is kept."""
        key = self.op * np.int64(count) + self.src
        order = np.argsort(key, kind="stable")
        key = key[order]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = key[1:] != key[:-1]
        order = order[fresh]
        op, src = self.op[order], self.src[order]
        ptr = np.concatenate([[0], np.cumsum(np.bincount(op, minlength=count))])
        return Dependencies(
            ptr.astype(np.int64),
            src.astype(np.int32),
            self.kind[order].astype(np.uint8),
            self.inferred[order],
        )
