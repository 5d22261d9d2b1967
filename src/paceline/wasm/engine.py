"""`Core`: replay by the WebAssembly module, with the names and columns of the native core."""

import weakref
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.wasm.memory import Borrowed, EngineMemory

Column = NDArray[Any]

SHAPED = (
    "message_of_op size link_ptr link capacity burst source target other cores "
    "cpu_ns_per_byte window_bytes message_ns late_ns"
).split()
CARRIED = "flow_of_op size tail_ns link_ptr link weight capacity".split()
"""Columns of links that carry ops, in the module's order; one row each for single numbers."""


class Core:
    """What `paceline.replay` asks of an engine."""

    def __init__(self, file: Path) -> None:
        self.memory = EngineMemory(file)

    def compile(
        self,
        lane: Column,
        instance: Column,
        dep_ptr: Column,
        dep_src: Column,
        dep_kind: Column,
        discipline: Column,
        drain_op: Column,
        drain_lane: Column,
        events: bool,
    ) -> "Program":
        sizes = (len(lane), len(dep_src), len(discipline), len(drain_op))
        columns = (lane, instance, dep_ptr, dep_src, dep_kind, discipline, drain_op, drain_lane)
        with Borrowed(self.memory) as borrowed:
            table = borrowed.table((*sizes, *columns))
            return Program(self.memory, self.memory.call("program_new", table, int(events)))

    def slack(
        self,
        order: Column,
        dep_ptr: Column,
        dep_src: Column,
        previous: Column,
        instance: Column,
        drained: Column,
        start: Column,
        end: Column,
    ) -> Column:
        columns = (order, dep_ptr, dep_src, previous, instance, drained, start, end)
        with Borrowed(self.memory) as borrowed:
            out = borrowed.put(np.zeros(len(order), np.int64))
            self.memory.call("slack_of", _replayed(borrowed, columns), out)
            return self.memory.read(np.int64, out, len(order))

    def critical_path(
        self,
        order: Column,
        dep_ptr: Column,
        dep_src: Column,
        previous: Column,
        instance: Column,
        drained: Column,
        start: Column,
        end: Column,
        ready: Column,
    ) -> tuple[Column, Column]:
        columns = (order, dep_ptr, dep_src, previous, instance, drained, start, end)
        with Borrowed(self.memory) as borrowed:
            table, since = _replayed(borrowed, columns), borrowed.put(ready)
            ops = borrowed.put(np.zeros(len(ready), np.int32))
            reasons = borrowed.put(np.zeros(len(ready), np.uint8))
            count = self.memory.call("path_of", table, since, ops, reasons)
            found = self.memory.read(np.int32, ops, count)
            return found, self.memory.read(np.uint8, reasons, count)

    def shared(self, columns: Mapping[str, Column], loaded: bool) -> "Shared":
        """What ops share, from `paceline.replay.shared.shared_columns`, for one replay."""
        return Shared(self.memory, columns, loaded)


def _replayed(borrowed: Borrowed, columns: tuple[Column, ...]) -> int:
    """The table of a graph's columns and its timeline's, which starts with how many rows they have:
    ops, dependencies, pairs of ops that drained."""
    order, _, dep_src, _, _, drained, *_ = columns
    return borrowed.table((len(order), len(dep_src), len(drained) // 2, *columns))


class Program:
    """A graph's structure, compiled; it keeps the memory of its last replay."""

    def __init__(self, memory: EngineMemory, handle: int) -> None:
        self._memory, self._handle = memory, handle
        ops, by_pull, self.bytes, cycle_size, cycle, order = memory.read_words(
            "program_facts", handle, 6
        )
        self.ops, self.by_pull, self._order = ops, bool(by_pull), order
        self.cycle = memory.read(np.int32, cycle, cycle_size)
        self._replayer = memory.call("replayer_new", handle)
        weakref.finalize(self, _forget, memory, self._replayer, handle).atexit = False

    @cached_property
    def order(self) -> Column:
        return self._memory.read(np.int32, self._order, self.ops)

    def pull(self, dur_ns: Column) -> tuple[Column, ...]:
        self._run(dur_ns, dur_ns[:0], 0)
        return self._columns(self._table()[:3], np.int64)

    def step(self, dur_ns: Column) -> int:
        with Borrowed(self._memory) as borrowed:
            out = borrowed.put(np.zeros(1, np.int64))
            self._memory.call("replayer_step", self._replayer, borrowed.put(dur_ns), 0, 0, out)
            return int(self._memory.read(np.int64, out, 1)[0])

    def events(
        self, dur_ns: Column, priority: Column, shared: "Shared | None" = None
    ) -> tuple[Any, ...]:
        self._run(dur_ns, priority, 0 if shared is None else shared.address)
        *columns, drained, pairs, finished, _ = self._table()
        return (
            *self._columns(columns[:3], np.int64),
            *self._columns(columns[3:], np.int32),
            self._memory.read(np.int32, drained, 2 * pairs),
            finished,
        )

    def _run(self, dur_ns: Column, priority: Column, shared: int) -> None:
        with Borrowed(self._memory) as borrowed:
            durations, priorities = borrowed.put(dur_ns), borrowed.put(priority)
            self._memory.call("replayer_run", self._replayer, durations, priorities, shared)

    def _table(self) -> list[int]:
        return self._memory.read_words("replayer_columns", self._replayer, 9)

    def _columns(self, addresses: list[int], dtype: Any) -> tuple[Column, ...]:
        return tuple(self._memory.read(dtype, address, self.ops) for address in addresses)


def _forget(memory: EngineMemory, replayer: int, program: int) -> None:
    memory.call("replayer_delete", replayer)
    memory.call("program_delete", program)


class Shared:
    """Contention, cores and links of one replay, in memory as long as this lives."""

    def __init__(self, memory: EngineMemory, columns: Mapping[str, Column], loaded: bool) -> None:
        self._borrowed = Borrowed(memory)
        flows = self._flows(memory, columns)
        hosts = self._hosts(columns, loaded)
        sort, device, slowed = columns["sort"], columns["device"], columns["slowed"]
        sizes = (len(sort), len(device), len(slowed) // 2)
        own = (sort, device, slowed, columns["carried"])
        handle = memory.call("sharing_new", self._borrowed.table((*sizes, *own, flows, hosts)))
        self.address = memory.call("sharing_of", handle)
        weakref.finalize(self, _unshare, memory, self._borrowed, handle, flows).atexit = False

    def _flows(self, memory: EngineMemory, columns: Mapping[str, Column]) -> int:
        if "shaped_size" in columns:
            some = [columns[f"shaped_{name}"] for name in SHAPED]
            ops, size, _, link, capacity, *_ = some
            sizes = (len(ops), len(size), len(link), len(capacity), len(some[9]))
            return memory.call("shaped_new", self._borrowed.table((*sizes, *some)))
        if "flows_size" in columns:
            some = [columns[f"flows_{name}"] for name in CARRIED]
            ops, size, _, _, link, _, capacity = some
            counts = (len(ops), len(size), len(link), len(capacity))
            return memory.call("carried_new", self._borrowed.table((*counts, *some)))
        return 0

    def _hosts(self, columns: Mapping[str, Column], loaded: bool) -> int:
        if "hosts_machine" not in columns:
            return 0
        names = ("machine", "cores", "works", "cpu", "turn", "beside")
        some = [columns[f"hosts_{name}"] for name in names]
        machine, cores, works, *_ = some
        sizes = (len(works), len(machine), len(cores), int(loaded))
        return self._borrowed.table((*sizes, *some))


def _unshare(memory: EngineMemory, borrowed: Borrowed, handle: int, flows: int) -> None:
    memory.call("sharing_delete", handle)
    if flows:
        memory.call("flows_delete", flows)
    borrowed.release()
