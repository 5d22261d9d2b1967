"""A trial inside the live job: notes every step, and switches the plan on and off between steps.

It stands on the global optimizer hooks, as the recorder does, so the script needs no change. A
border is the end of an optimizer step. At the first border all ranks take over rank 0's blocks, and
behind every round its word whether time is up, over the job's own process group.
"""

import atexit
import logging
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch.optim import optimizer as torch_optimizer

from paceline.errors import PacelineError
from paceline.record.torch_patch import Patches
from paceline.strategies import Plan, parse
from paceline.strategies.torch_applied import applied, outermost
from paceline.trial.blocks import SETTLING, Side, TrialBlock
from paceline.trial.lines import Began, End, Loss, Reason, StepLine, TrialLine, encode, file_of
from paceline.trial.settings import VARIABLE, TrialSettings

log = logging.getLogger(__name__)
_LONGEST = 500  # characters of an error's text
_EVERY = 20  # steps after which losses are read where no block ends before


def start_from_environment() -> "LiveTrial":
    """What the launcher's injected hook calls once torch is there."""
    trial = LiveTrial(msgspec.json.decode(os.environ[VARIABLE], type=TrialSettings))
    trial.listen()
    return trial


@dataclass(frozen=True)
class _Place:
    """Where in the blocks the step that runs now stands."""

    block: int = 0
    past: int = 0  # steps of the block before it

    def counts(self, blocks: list[TrialBlock]) -> bool:
        return self.past >= blocks[self.block].warm

    def next(self, blocks: list[TrialBlock]) -> "_Place":
        """May lie behind the last block."""
        block, past = self.block, self.past + 1
        while block < len(blocks) and past >= blocks[block].warm + blocks[block].steps:
            block, past = block + 1, 0
        return _Place(block, past)


class LiveTrial:
    """One rank's trial, from `listen` to `finish`. Without blocks it only notes steps."""

    def __init__(self, settings: TrialSettings) -> None:
        self._settings = settings
        self._plan = Plan(tuple(parse(text) for text in settings.plan))
        self._blocks = settings.blocks
        self._place = _Place()
        self._under: ExitStack | None = None  # the plan, while it is in force
        self._patches, self._file = Patches(), None  # type: tuple[Patches, Any]
        self._lead: int | None = None  # id of the optimizer whose steps are the job's
        self._depth = 0
        self._index = self._begin = self._cpu = 0
        self._since = time.monotonic()
        self._losses: list[Any] = []  # of the step that runs
        self._unread: list[tuple[int, list[Any]]] = []
        self._finished = False

    def listen(self) -> None:
        self._hooks = [
            torch_optimizer.register_optimizer_step_pre_hook(self._before_update),
            torch_optimizer.register_optimizer_step_post_hook(self._after_update),
        ]
        self._patches.wrap(torch.autograd, "backward", self._noting)
        if dist.is_available():
            self._patches.wrap(dist.ProcessGroup, "shutdown", self._before_shutdown)
        atexit.register(self._ended)
        _tell_uncaught(self)

    def finish(self, reason: Reason, error: BaseException | None = None) -> None:
        """Leave the plan, and write the last line. Only the first call counts."""
        if self._finished:
            return
        self._finished = True
        try:
            self._leave(error)
        finally:
            self._patches.undo()
            if self._file is not None:
                self._read_losses()
                kind, told = (type(error).__name__, str(error)[:_LONGEST]) if error else ("", "")
                self._write(End(reason, kind, told, time.time_ns()))
                self._file.close()

    def _before_update(self, *_: Any) -> None:
        self._depth += 1

    def _after_update(self, optimizer: Any, *_: Any) -> None:
        self._depth = max(0, self._depth - 1)
        if self._depth or self._finished:
            return  # an optimizer inside another; torch goes over its hooks now, so ours stay
        self._lead = self._lead or id(optimizer)
        if id(optimizer) != self._lead:
            return
        now, cpu = time.perf_counter_ns(), time.process_time_ns()
        try:
            self._border(now, cpu, optimizer)
        except PacelineError as error:
            self.finish(Reason.REFUSED, error)
        except Exception as error:
            log.exception("the trial stopped; the job goes on")
            self.finish(Reason.FAULT, error)

    def _border(self, now: int, cpu: int, optimizer: Any) -> None:
        """A step has ended: note it, and prepare the next."""
        if self._file is None:
            self._open()
        else:
            self._note(now, cpu)
        self._keep_losses()
        if self._blocks:
            self._move(optimizer)
        self._index += 1
        self._cpu, self._begin = time.process_time_ns(), time.perf_counter_ns()

    def _open(self) -> None:
        rank, world = (dist.get_rank(), dist.get_world_size()) if _joined() else (0, 1)
        self._blocks = agreed(self._blocks)
        folder = Path(self._settings.folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._file = file_of(folder, rank).open("wb", buffering=0)
        self._write(Began(rank, world, self._blocks))
        self._place = _Place(0, -1)

    def _note(self, now: int, cpu: int) -> None:
        place, wall_ns, cpu_ns = self._place, now - self._begin, cpu - self._cpu
        if not self._blocks:
            self._write(StepLine(self._index, wall_ns, cpu_ns))
            return
        self._write(StepLine(self._index, wall_ns, cpu_ns, place.block, place.counts(self._blocks)))

    def _move(self, optimizer: Any) -> None:
        """To the next step's block; switches where its side is another."""
        before, self._place = self._place, self._place.next(self._blocks)
        if self._place.past:
            return  # still in the same block
        self._read_losses()
        if self._place.block >= len(self._blocks):
            self.finish(Reason.COMPLETE)
        elif self._round_ends(before) and agreed(time.monotonic() - self._since > self._limit_s):
            self.finish(Reason.LIMIT)
        else:
            self._switch(self._blocks[self._place.block].side, optimizer)

    @property
    def _limit_s(self) -> float:
        return self._settings.limit_s

    def _round_ends(self, before: _Place) -> bool:
        now: int = self._blocks[self._place.block].round
        then: int = self._blocks[before.block].round
        return now != then != SETTLING

    def _switch(self, side: Side, optimizer: Any) -> None:
        if side is not Side.PLAN:
            self._leave(None)
        elif self._under is None and self._plan.strategies:
            with ExitStack() as stack:
                stack.enter_context(
                    applied(self._plan, outermost(optimizer), optimizer, forced=True)
                )
                self._under = stack.pop_all()

    def _leave(self, error: BaseException | None) -> None:
        """After an error this rank must not wait for the others."""
        under, self._under = self._under, None
        if under is not None:
            under.__exit__(type(error) if error else None, error, None)

    def _noting(self, original: Any) -> Any:
        """Keeps the scalar that is differentiated: the loss."""

        def backward(tensors: Any, *others: Any, **named: Any) -> None:
            if isinstance(tensors, torch.Tensor) and tensors.numel() == 1:
                self._losses.append(tensors.detach())
            original(tensors, *others, **named)

        return backward

    def _keep_losses(self) -> None:
        """Read later: on a device, reading waits for it."""
        if self._losses:
            self._unread.append((self._index, self._losses))
        self._losses = []
        if len(self._unread) >= _EVERY:
            self._read_losses()

    def _read_losses(self) -> None:
        for index, seen in self._unread:
            values = [float(value) for value in seen]
            self._write(Loss(index, sum(values) / len(values)))
        self._unread = []

    def _before_shutdown(self, original: Any) -> Any:
        """A plan needs the process group to be left."""

        def shutdown(group: Any) -> None:
            if group == dist.group.WORLD:
                self.finish(Reason.SHORT)
            original(group)

        return shutdown

    def _ended(self) -> None:
        """A process that ends alone must not wait for the others."""
        self.finish(Reason.SHORT, SystemExit())

    def _write(self, line: TrialLine) -> None:
        assert self._file is not None, "opened at the first border"
        self._file.write(encode(line) + b"\n")


def agreed(mine: Any) -> Any:
    """What rank 0 says; all ranks must come here together."""
    if not _joined() or dist.get_world_size() == 1:
        return mine
    said = [mine]
    dist.broadcast_object_list(said, src=0)
    return said[0]


def _joined() -> bool:
    return bool(dist.is_available() and dist.is_initialized())


def _tell_uncaught(trial: LiveTrial) -> None:
    shown = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        trial.finish(Reason.EXCEPTION, error)
        shown(kind, error, trace)

    sys.excepthook = note
