"""`GradientWatch`: which op readies which gradient of a DDP job, and which collective reduces it.

It stands on the imagined reducer: a gradient is ready once it lies in its bucket.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from paceline.graph import NONE, OpKind
from paceline.imagine.imagined import Trained
from paceline.imagine.torch_reducer import ReducedBucket, Reducer
from paceline.imagine.torch_watch import Watch
from paceline.imagine.torch_work import size_of
from paceline.record.torch_patch import Patches


class GradientWatch:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._names: dict[int, str] = {}  # by the id of the parameter, once the model is known
        self._sizes: dict[str, int] = {}
        self._ready: dict[int, int] = {}  # rows, of gradients that are not reduced yet
        self._told: set[str] = set()

    def patch(self, patches: Patches) -> None:
        patches.wrap(Reducer, "taken", self._taking)
        patches.wrap(Reducer, "_reduce", self._reducing)

    def know(self, named: Sequence[tuple[str, Any]]) -> None:
        """The parameters of the model, in its order."""
        self._names = {id(tensor): name for name, tensor in named}
        self._sizes = {name: size_of(tensor) for name, tensor in named}

    def parameters(self) -> list[Trained]:
        """Those whose gradients were reduced."""
        return [Trained(name, size) for name, size in self._sizes.items() if name in self._told]

    def buckets(self, reducers: Sequence[Reducer]) -> Iterator[list[str]]:
        for reducer in reducers:
            for bucket in reducer.buckets:
                names = [self._names.get(id(param), "") for param in bucket.params]
                yield [name for name in names if name in self._told]

    def _taking(self, original: Any) -> Any:
        def taken(reducer: Reducer, index: int, param: Any) -> ReducedBucket:
            bucket: ReducedBucket = original(reducer, index, param)
            name = self._names.get(id(param))
            if self._watch.recording and self._watch.last != NONE and name:
                self._watch.rows[self._watch.last].tensor = name
                self._ready[id(param)] = self._watch.last
                self._told.add(name)
            return bucket

        return taken

    def _reducing(self, original: Any) -> Any:
        def reduce(reducer: Reducer, bucket: ReducedBucket) -> None:
            before = len(self._watch.rows)
            original(reducer, bucket)
            rows = [self._ready.pop(id(p)) for p in bucket.params if id(p) in self._ready]
            for row in self._watch.rows[before:]:
                if row.kind == OpKind.COLLECTIVE:
                    row.gradients = rows

        return reduce
