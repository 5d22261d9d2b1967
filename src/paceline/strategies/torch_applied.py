"""Enter a plan in a live job: around a block of code, or by the environment of `paceline apply`.

    with paceline.applied("plan.json", model, optimizer) as sent:
        ...                                       # train as ever
    print(sent.a_step())

Leaving the block, also by an error, leaves model and optimizer as they were.
"""

import atexit
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.optim import optimizer as torch_optimizer

from paceline.record.torch_facts import TrainedModel, model_facts, root_modules
from paceline.record.torch_patch import Patches
from paceline.runtime.exchange import Sent
from paceline.runtime.run import Run
from paceline.runtime.torch_exchange import installed
from paceline.strategies.applying import PLAN, REPORT
from paceline.strategies.named import parse
from paceline.strategies.plan import MadeFor, Plan, digest, load_plan, require_fit
from paceline.strategies.staleness import Drift
from paceline.strategies.strategy import StrategyError

log = logging.getLogger(__name__)

Given = Plan | str | Path | Sequence[str]
"""A plan, its file, or strategies as text."""


@contextmanager
def applied(plan: Given, model: Any, optimizer: Any, *, forced: bool = False) -> Iterator[Sent]:
    """The plan in force, and what is sent under it. Forced: whatever job it was made for."""
    wanted, told = _plan(plan), model_facts(optimizer)
    if not forced:
        require_fit(wanted, _job(told))
    names = {id(tensor): p.name for tensor, p in zip(told.tensors, told.parameters)}
    run = Run(model, optimizer, tuple(told.replicas), _world_size(), names=names)
    with ExitStack() as stack:
        for change in wanted.strategies:
            stack.enter_context(change.apply(run))
        yield stack.enter_context(installed(run))


def outermost(optimizer: Any) -> Any:
    """The module that holds the most of what the optimizer trains."""
    tensors = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    sizes = {id(tensor): tensor.numel() for tensor in tensors}

    def held(module: Any) -> int:
        return sum(sizes.get(id(p), 0) for p in module.parameters())

    roots = root_modules(tensors)
    if not roots:
        raise StrategyError("the optimizer trains tensors of no module, and a plan changes modules")
    largest = max(roots, key=held)
    if held(largest) < sum(sizes.values()):
        log.warning(
            "the optimizer trains %d modules that no other holds together: what the plan changes "
            "of layers and operators, it changes in %s alone",
            len(roots),
            type(largest).__name__,
        )
    return largest


def start_from_environment() -> "Entering":
    """What the launcher's injected hook calls once torch is there."""
    report = os.environ.get(REPORT)
    entering = Entering(load_plan(Path(os.environ[PLAN])), Path(report) if report else None)
    entering.listen()
    return entering


class Entering:
    """Waits for the first optimizer step, for then the model is whole; enters the plan behind it.
    Leaves before the process group goes, or at the end of the process. Of optimizers that step
    inside another's step (ZeroRedundancyOptimizer's own) the outer one counts."""

    def __init__(self, plan: Plan, report: Path | None) -> None:
        self._plan, self._report = plan, report
        self._stack, self._patches = ExitStack(), Patches()
        self._sent: Sent | None = None
        self._rank = 0
        self._lead: int | None = None  # id of the optimizer whose steps are the job's
        self._drift = Drift(plan.predicted) if plan.predicted is not None else None
        self._ended_ns = 0  # the step before
        self._steps = 0  # under the plan
        self._depth = 0  # of optimizers that step inside another's step
        self._warned = False

    def listen(self) -> None:
        self._hooks = (
            torch_optimizer.register_optimizer_step_pre_hook(self._begin),
            torch_optimizer.register_optimizer_step_post_hook(self._end),
        )
        if dist.is_available():
            self._patches.wrap(dist.ProcessGroup, "shutdown", self._before_shutdown)
        atexit.register(self._ended)

    def leave(self) -> None:
        """Undo the plan and write what was sent. Only the first call counts."""
        for hook in self._hooks:
            hook.remove()
        self._stack.close()
        self._patches.undo()
        sent, self._sent = self._sent, None
        if sent is not None and self._report is not None:
            told = {"rank": self._rank, "steps": self._steps, **sent.a_step(), **self._drifted()}
            (self._report / f"rank-{self._rank}.json").write_text(json.dumps(told))

    def _ended(self) -> None:
        """A process that ends alone must not wait for the others: as after an error."""
        self._stack.__exit__(SystemExit, SystemExit(), None)
        self.leave()

    def _begin(self, *_: Any) -> None:
        self._depth += 1

    def _end(self, optimizer: Any, *_: Any) -> None:
        self._depth = max(0, self._depth - 1)
        if self._depth:
            return
        if self._lead is None:
            self._enter(optimizer)
        else:  # torch goes over its hooks now, so this one stays
            self._watch(optimizer)

    def _enter(self, optimizer: Any) -> None:
        self._lead, self._ended_ns = id(optimizer), time.perf_counter_ns()
        self._rank = dist.get_rank() if dist.is_initialized() else 0
        under = applied(self._plan, outermost(optimizer), optimizer)
        self._sent = self._stack.enter_context(under)

    def _watch(self, optimizer: Any) -> None:
        """Steps under the plan, beside what was predicted of them."""
        if id(optimizer) != self._lead:
            return
        self._steps += 1
        if self._drift is None:
            return
        now = time.perf_counter_ns()
        self._drift.step(now - self._ended_ns)
        self._ended_ns = now
        if not self._warned and not self._rank and (why := self._drift.stale):
            self._warned = True
            log.warning("%s", why)

    def _drifted(self) -> dict[str, Any]:
        if self._drift is None:
            return {}
        return {"step_ns": self._drift.step_ns, "stale": self._drift.stale}

    def _before_shutdown(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        def shutdown(group: Any) -> None:
            if group == dist.group.WORLD:
                self.leave()
            original(group)

        return shutdown


def _plan(given: Given) -> Plan:
    if isinstance(given, Plan):
        return given
    if isinstance(given, (str, Path)):
        return load_plan(Path(given))
    return Plan(tuple(parse(text) for text in given))


def _job(told: TrainedModel) -> MadeFor:
    """This job as plans name it, as its recording would."""
    sizes = ((p.name, p.size_bytes * p.shards) for p in told.parameters)
    return MadeFor(digest(sizes), _world_size(), torch=str(torch.__version__))


def _world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
