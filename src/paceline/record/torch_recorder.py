"""`Recorder`: finds the steps of a live training job and records the steady ones.

It stands on the global optimizer hooks, so the script needs no change. A border is the end of an
optimizer step; all that the recorder does at borders lies between two steps. The steps of a job:

    warm-up ... | plain | detail | warm-up | recorded ... | warm-up | plain ... | left alone

Plain steps run without any instrument: they say what a step takes when nobody looks. In turns, the
recorded steps come in stretches with plain ones behind each, in which the instruments rest.
"""

import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch.optim import optimizer as torch_optimizer

from paceline.machine import PulseTaker
from paceline.record import sidecar
from paceline.record.counters import CountDetail, Counters, usage_now
from paceline.record.held import HeldSteps
from paceline.record.sidecar import Mode
from paceline.record.torch_comms import CommunicationWatch
from paceline.record.torch_detail import DetailWatch
from paceline.record.torch_facts import (
    TrainedModel,
    group_facts,
    host_facts,
    model_facts,
    optimizer_facts,
)
from paceline.record.torch_flight import flights
from paceline.record.torch_issued import issued
from paceline.record.torch_memory import memory_of
from paceline.record.torch_patch import Patches
from paceline.record.torch_profile import (
    Counted,
    LoopCosts,
    Session,
    Taken,
    Times,
    cost_of,
    counted_in,
    events_in,
    loop_costs,
)
from paceline.record.torch_schedule import RecordSchedule, agreed_start

log = logging.getLogger(__name__)
_numbers = itertools.count()  # of this process's recordings: all ranks count alike
_WORTH_SAYING = {Mode.PLAIN: CountDetail.THREADS, Mode.RECORDED: CountDetail.PHASES}
_HELD = frozenset(_WORTH_SAYING)  # modes whose steps are compared: nothing is written between them
_LONGEST = 500  # characters of an error's text: torch puts whole tensors into some


@dataclass(frozen=True)
class RecorderSettings:
    """What to record and where to."""

    folder: Path
    steps: int = 10
    plain: int = 5  # steps timed without instruments, before and again after the recorded ones
    turns: bool = False  # recorded and plain steps take turns
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordedWork:
    """What a recorded step's instruments did, and what loops say that costs."""

    step: Counted
    loops: LoopCosts


class Recorder:
    """One rank's recording, from `install` to `finish`."""

    def __init__(self, settings: RecorderSettings) -> None:
        self.settings = settings
        turns = settings.turns and not torch.cuda.is_available()
        self.schedule = RecordSchedule(settings.steps, settings.plain, turns=turns)
        self._number = next(_numbers)
        self._lead: int | None = None  # id of the optimizer whose steps are the job's steps
        self._beside: WeakSet[Any] = WeakSet()  # the job's other optimizers
        self._depth = 0
        self._hooks: list[Any] = []
        self._patches = Patches()
        self._file: Any = None
        self._writing = threading.Lock()
        self._index = 0  # of the step that runs now
        self._mode = Mode.WARMUP
        self._begin = self._cpu = self._faults = self._update = self._ended = 0
        self._times: dict[Mode, list[Times]] = {mode: [] for mode in Mode}
        self._session: Session | None = None
        self._counters: Counters | None = None
        self._steps = HeldSteps(self._write)
        self._comms = CommunicationWatch(self._write, self._mark)
        self._detail: DetailWatch | None = None
        self._events = 0  # of the detail step
        self._growth_bytes = 0.0  # of the heap in a detail step
        self._recorded: RecordedWork | None = None
        self._model = TrainedModel()
        self._trace = ""
        self._finished = False
        self.rank = 0

    def install(self) -> None:
        """Listen to every optimizer of this process."""
        self._hooks = [
            torch_optimizer.register_optimizer_step_pre_hook(self._before_update),
            torch_optimizer.register_optimizer_step_post_hook(self._after_update),
        ]
        if dist.is_available():
            self._patches.wrap(dist.ProcessGroup, "shutdown", self._before_shutdown)

    def finish(self, reason: str, detail: str = "") -> None:
        """Stop recording and write what there is. Only the first call counts."""
        if self._finished:
            return
        self._finished = True
        for hook in self._hooks:
            hook.remove()
        self._patches.undo()
        if self._file is None:
            return  # no optimizer ever stepped here: a launcher, a data worker
        self._pause_session()
        self._steps.write()
        self._close_session()
        if self._after():
            self._write_cost()  # again, by more plain steps
        if self._counters is not None:
            self._write(*self._counters.times())
            self._counters.close()
        recorded = len(self._times[Mode.RECORDED])
        self._write(
            sidecar.End(
                reason=reason,
                at_ns=time.time_ns(),
                steps=self._index,
                recorded=recorded,
                detail=detail[:_LONGEST],
                trace=self._trace,
            )
        )
        self._file.close()
        self._model = TrainedModel()  # torch aborts at exit where a process group is still held

    def _before_update(self, optimizer: Any, *_: Any) -> None:
        self._depth += 1
        if not self._update:
            self._mark()
            self._update = time.time_ns()

    def _after_update(self, optimizer: Any, *_: Any) -> None:
        self._depth = max(0, self._depth - 1)
        if self._depth:
            return  # an optimizer inside another: ZeroRedundancyOptimizer
        if self._lead is None:
            self._lead = id(optimizer)
        if id(optimizer) == self._lead and not self._finished:
            now = time.time_ns()
            self._safely(lambda: self._border(now, optimizer))
        elif id(optimizer) != self._lead:
            self._beside.add(optimizer)

    def _before_shutdown(self, original: Any) -> Any:
        """What torch knows of the job's communication goes with the default group."""

        def shutdown(group: Any) -> None:
            if group == dist.group.WORLD:
                self._safely(lambda: self.finish("short", "the process group was destroyed"))
            original(group)

        return shutdown

    def _safely(self, act: Callable[[], None]) -> None:
        """A fault of the recorder ends the recording, never the job."""
        try:
            act()
        except Exception as error:
            log.exception("recording of rank %d stopped; the job goes on", self.rank)
            self.finish("recorder failed", f"{type(error).__name__}: {error}")

    def _mark(self) -> None:
        """A phase of the step begins or ends."""
        if self._counters is not None:
            self._counters.mark()

    def _border(self, now: int, optimizer: Any) -> None:
        """A step has ended: note it, prepare the next."""
        if self._counters is None:
            self._counters = self._open()
        else:
            self._note_step(now, self._counters)
        self._ended = now
        self._index += 1
        upcoming = self._next_mode()
        if upcoming is not self._mode:
            self._change(upcoming, optimizer)
            self._mode = upcoming
        self._update = 0
        if self._mode is not Mode.DONE:
            pulse = self._counters.begin(_WORTH_SAYING.get(self._mode, CountDetail.STEP))
            if pulse is not None:
                self._write(pulse)
        self._cpu, self._faults = time.process_time_ns(), usage_now().ru_minflt
        self._begin = time.time_ns()
        if self._mode is Mode.DONE:
            self.finish("complete")

    def _open(self) -> Counters:
        """The first border: now the process group and the model exist."""
        host = host_facts(self.settings.command)
        self.rank = host.rank
        self.settings.folder.mkdir(parents=True, exist_ok=True)
        path = self.settings.folder / sidecar.facts_name(self.rank)
        self._file = path.open("wb", buffering=0)
        self._write(host)
        return Counters(pulses=None if host.local_rank else PulseTaker())

    def _note_step(self, now: int, counters: Counters) -> None:
        cpu_ns = time.process_time_ns() - self._cpu
        ended = counters.end()
        faults = counters.border.usage.ru_minflt - self._faults
        if self._session is not None:
            self._session.steps += 1
        self._times[self._mode].append(Times(now - self._begin, cpu_ns, faults))
        if self._mode is Mode.RECORDED:
            thread = threading.get_native_id()
            self._write(sidecar.Own(thread=thread, begin_ns=self._ended, end_ns=self._begin))
        step = partial(
            sidecar.Step,
            index=self._index,
            begin_ns=self._begin,
            end_ns=now,
            mode=self._mode,
            cpu_ns=cpu_ns,
            faults=faults,
            micro_batches=self._comms.flush(),
            update_begin_ns=self._update,
        )
        self._steps.hold(step, ended)
        if self._mode not in _HELD:
            self._steps.write()

    def _next_mode(self) -> Mode:
        if self.schedule.start is None:
            warmup = [times.wall_ns for times in self._times[Mode.WARMUP]]
            start = agreed_start(self.rank, self._index, warmup, self._number)
            self.schedule = self.schedule.starting_at(start)
        return self.schedule.mode(self._index)

    def _change(self, upcoming: Mode, optimizer: Any) -> None:
        """Set up and tear down instruments between two modes."""
        if {self._mode, upcoming} == _HELD:
            self._take_turns(upcoming)
            return
        if self._counters is not None:
            self._write(*self._counters.times())
            self._counters.find_threads()
        if self._mode is Mode.DRAIN:
            self._close_session()
        if upcoming is Mode.DETAIL:
            self._describe(optimizer)
            self._detail = DetailWatch(self._write, self._index)
            self._detail.install(self._model)
            self._open_session(detail=True)
        elif upcoming is Mode.SETTLE:
            self._comms.install(self._model.replicas)
            self._open_session(detail=False)
        elif upcoming is Mode.RECORDED:
            self._comms.clear()
        elif upcoming is Mode.DRAIN:
            self._pause_session()

    def _take_turns(self, upcoming: Mode) -> None:
        """From recorded steps to plain ones or back: the instruments rest, or go on."""
        if self._session is None:
            return
        if upcoming is Mode.RECORDED:
            self._session.resume()
            self._comms.resume()
        else:
            self._session.pause()
            self._comms.rest()

    def _describe(self, optimizer: Any) -> None:
        beside = tuple(model_facts(each) for each in self._beside)
        self._model = replace(model_facts(optimizer), beside=beside)
        told = (optimizer_facts(optimizer), *self._model.parameters, *self._model.buckets)
        for record in (*group_facts(), *told):
            self._write(record)

    def _open_session(self, *, detail: bool) -> None:
        name = sidecar.detail_name if detail else sidecar.trace_name
        steps = self.settings.steps + 2
        path = self.settings.folder / name(self.rank)
        self._session = Session(
            path,
            detail=detail,
            events=self._events * steps,
            growth_bytes=self._growth_bytes * steps,
        )
        self._session.start()

    def _pause_session(self) -> None:
        if self._session is None:
            return
        self._session.pause()
        self._comms.remove()
        if self._detail is not None:
            self._detail.remove()

    def _close_session(self) -> None:
        """Write the trace and what the watchers saw."""
        session, self._session = self._session, None
        if session is None:
            return
        growth_bytes = session.growth_bytes
        session.stop()
        session.export()
        if session.detail:
            self._events = events_in(session.path)
            self._growth_bytes = growth_bytes
            self._write_memory(session.path)
            return
        self._trace = session.path.name
        flown = flights(self._comms.watched_at)
        for record in issued(self._comms.noted, flown, self._model.buckets):
            self._write(record)
        self._recorded = self._recorded_work(session)
        self._write_cost()
        self._comms.clear()

    def _write_memory(self, trace: Path) -> None:
        watch, self._detail = self._detail, None
        if watch is not None:
            self._write(*memory_of(watch.step, self._model, watch.kept, trace))

    def _recorded_work(self, session: Session) -> RecordedWork:
        """Of a step. A device's calls are seen to the session's end, all else until its pause."""
        watched = max(1, len(self._times[Mode.RECORDED]) + len(self._times[Mode.SETTLE]))
        found = counted_in(session.path)
        calls = found.calls / max(1, session.steps)
        return RecordedWork(
            Counted((found.ops - found.calls) / watched + calls, calls), loop_costs()
        )

    def _write_cost(self) -> None:
        if self._recorded is None:
            return
        plain, before = self._times[Mode.PLAIN], self.settings.plain
        between = plain[before:] if self.schedule.turns else []
        taken = Taken(plain[:before], self._times[Mode.RECORDED], between, self._after())
        self._write(cost_of(taken, self._recorded.step, self._recorded.loops))

    def _after(self) -> list[Times]:
        """Plain steps behind the recorded ones. A GPU's are not the job's own: what watches its
        launches stays."""
        if self.schedule.turns or torch.cuda.is_available():
            return []
        return self._times[Mode.PLAIN][self.settings.plain :]

    def _write(self, *records: sidecar.Record) -> None:
        with self._writing:
            self._file.write(b"".join(map(sidecar.encode, records)))
