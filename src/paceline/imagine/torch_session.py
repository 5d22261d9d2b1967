"""One imagined rank from start to end: where its steps, phases and modules begin and end.

Like the recorder it stands on the global hooks of optimizers and modules; the script is unchanged.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from paceline.graph import NONE, Axis, MemoryCategory, Phase
from paceline.graph.work.columns import recorded_columns
from paceline.imagine.imagined import Imagined, Members
from paceline.imagine.torch_fakes import Fakes
from paceline.imagine.torch_futures import Deferred
from paceline.imagine.torch_gradients import GradientWatch
from paceline.imagine.torch_lists import lists_at_once
from paceline.imagine.torch_watch import Watch
from paceline.imagine.torch_work import size_of
from paceline.imagine.torch_world import World
from paceline.record.sidecar import RecordedGroup
from paceline.record.torch_comms import COLLECTIVES
from paceline.record.torch_facts import clean_path, group_facts, root_modules
from paceline.record.torch_patch import Patches


class ImagineSettings(msgspec.Struct):
    """Which rank to be, and for how long."""

    rank: int = 0
    world_size: int = 1
    steps: int = 1  # to keep
    settle: int = 0  # steps to let pass; 0: as many as optimizers and DDP need
    forward: bool = False  # a step is a call of the model, not of the optimizer
    gpu: bool = False  # torch is to choose as it does on one
    command: list[str] = []


@dataclass(frozen=True)
class _Issued:
    """Communication that nobody has waited for yet."""

    work: Any  # kept, so that no other work takes its id
    rows: list[int]
    tensors: Any


class StepsCollected(BaseException):
    """All steps were seen; no part of the script should catch it."""


class Session:
    """While entered, all tensors are without data and all that is done is watched."""

    def __init__(self, settings: ImagineSettings) -> None:
        self.settings = settings
        self.result: Imagined | None = None
        self.steps_made = 0
        self._mode = Fakes()
        self._watch = Watch(gpu=settings.gpu)
        self._world = World(settings.rank, settings.world_size, self._mode)
        self._patches = Patches()
        self._gradients = GradientWatch(self._watch)
        self._lists = ExitStack()
        self._hooks: list[Any] = []
        self._optimizers: dict[int, Any] = {}
        self._models: list[Any] = []  # modules that no other module calls
        self._roots: list[Any] = []  # outermost modules, once the model is known
        self._depth = 0
        self._works: dict[int, _Issued] = {}  # by the id of the work

    def __enter__(self) -> "Session":
        self._world.enter()
        self._hooks = [
            optimizers.register_optimizer_step_pre_hook(self._before_update),
            optimizers.register_optimizer_step_post_hook(self._after_update),
            modules.register_module_forward_pre_hook(self._enter_module),
            modules.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        self._patches.wrap(torch.autograd, "_engine_run_backward", self._passing)
        self._patches.wrap(dist.Work, "wait", self._waiting)
        self._patches.wrap(dist.Work, "get_future", self._promising)
        self._patches.wrap(torch.UntypedStorage, "resize_", self._resizing)
        for name in COLLECTIVES:
            if name in vars(dist.ProcessGroup):
                self._patches.wrap(dist.ProcessGroup, name, self._issuing)
        self._gradients.patch(self._patches)
        self._patches.wrap(torch.backends.mha, "get_fastpath_enabled", _off)
        self._quiet_propagation()
        if self.settings.gpu:
            self._lists.enter_context(lists_at_once())
        self._mode.__enter__()
        self._watch.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._watch.__exit__(*error)
        self._mode.__exit__(*error)
        self._lists.close()
        self._patches.undo()
        for hook in self._hooks:
            hook.remove()
        self._works.clear()
        self._world.leave()

    @property
    def warmup(self) -> int:
        """Steps to let pass: optimizers make their state in the first, DDP its final buckets
        before the second forward pass."""
        return self.settings.settle or (2 if self._world.reducers else 1)

    def _before_update(self, optimizer: Any, *_: Any) -> None:
        self._depth += 1
        self._optimizers.setdefault(id(optimizer), optimizer)
        self._watch.phase = Phase.UPDATE
        for tensor in self._tensors():
            if self._watch.recording and tensor.grad is not None:
                self._watch.memory.is_gradient(_local(tensor.grad))

    def _after_update(self, optimizer: Any, *_: Any) -> None:
        self._depth -= 1
        if self._depth or optimizer is not next(iter(self._optimizers.values())):
            return  # inside another optimizer, or not the one whose steps are the job's
        if not self.settings.forward:
            self._end_step()

    def _end_step(self) -> None:
        self.steps_made += 1
        self._watch.phase = Phase.DATA
        if self.steps_made == self.warmup:
            self._begin()
        elif self.steps_made == self.warmup + self.settings.steps:
            self._end()
            raise StepsCollected
        else:
            self._watch.step += self._watch.recording

    def _begin(self) -> None:
        """From here on rows are kept; what is alive now is alive throughout."""
        memory, tensors = self._watch.memory, list(self._tensors())
        self._roots = root_modules(tensors)
        gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
        buckets = [bucket.flat for one in self._world.reducers for bucket in one.buckets]
        memory.standing(_total(tensors), MemoryCategory.WEIGHTS)
        memory.standing(_total([*gradients, *buckets]), MemoryCategory.GRADIENTS)
        memory.standing(_total(list(self._states())), MemoryCategory.OPTIMIZER)
        named = [(name or f"parameter {i}", each) for i, (name, each) in enumerate(self._named())]
        self._gradients.know(named)
        for label, tensor in named:
            if not any(one.reduces(tensor) for one in self._world.reducers):
                hook = tensor.register_post_accumulate_grad_hook(self._completing(label))
                self._hooks.append(hook)
        self._watch.recording = True

    def _end(self) -> None:
        watch, self._watch.recording = self._watch, False
        named = (pair for root in self._roots for pair in root.named_modules())
        paths = {id(module): clean_path(path) for path, module in named}
        for row, owner in zip(watch.rows, watch.owners):
            row.layer = paths.get(owner, "")
        self.result = Imagined(
            rank=self.settings.rank,
            world_size=self.settings.world_size,
            steps=self.settings.steps,
            rows=watch.rows,
            memory=watch.memory.events,
            groups=[Members(g.name, list(g.ranks), self._axis(g)) for g in group_facts()],
            works=recorded_columns(watch.works.all),
            notes=self._notes(),
            parameters=self._gradients.parameters(),
            buckets=list(self._gradients.buckets(self._world.reducers)),
            gpu=self.settings.gpu,
            channels_last=watch.works.channels_last,
        )

    def _axis(self, group: RecordedGroup) -> str:
        """Replicas, where DDP reduces gradients among them."""
        reduced = any(one.group_name == group.name for one in self._world.reducers)
        return Axis.DATA.value if reduced else group.axis

    def _notes(self) -> list[str]:
        read = self._watch.values_read
        said = f"the script read {read} values of tensors; each reading gave 1"
        return sorted({*self._world.notes, *([said] if read else [])})

    def _enter_module(self, module: Any, _: Any) -> None:
        if self._watch.phase is not Phase.BACKWARD:
            self._watch.phase = Phase.FORWARD
        if not self._watch.layers and not any(module is known for known in self._models):
            self._models.append(module)
        self._watch.layers.append(id(module))

    def _leave_module(self, module: Any, *_: Any) -> None:
        self._watch.layers.pop()
        if self.settings.forward and not self._watch.layers and module is self._models[0]:
            self._end_step()

    def _passing(self, original: Any) -> Any:
        def backward(*args: Any, **kwargs: Any) -> Any:
            self._watch.phase = Phase.BACKWARD
            try:
                return original(*args, **kwargs)
            finally:
                self._watch.phase = Phase.UPDATE

        return backward

    def _issuing(self, original: Any) -> Any:
        def call(group: Any, *args: Any, **kwargs: Any) -> Any:
            before = len(self._watch.rows)
            work = original(group, *args, **kwargs)
            rows = list(range(before, len(self._watch.rows)))
            self._works[id(work)] = _Issued(work, rows, args[0] if args else None)
            return work

        return call

    def _waiting(self, original: Any) -> Any:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            issued = self._works.pop(id(work), None)
            self._watch.wait_for(issued.rows if issued else [])
            return original(work, *args, **kwargs)

        return wait

    def _promising(self, original: Any) -> Any:
        def get_future(work: Any) -> Any:
            issued = self._works.pop(id(work), None)
            return original(work) if issued is None else Deferred(lambda: self._arrive(issued))

        return get_future

    def _arrive(self, issued: "_Issued") -> Any:
        self._watch.wait_for(issued.rows)
        return issued.tensors

    def _resizing(self, original: Any) -> Any:
        def resize(storage: Any, size: int) -> Any:
            before = storage.nbytes()
            result = original(storage, size)
            if self._watch.recording and size != before:
                self._watch.memory.resized(size - before)
            return result

        return resize

    def _completing(self, label: str) -> Callable[[Any], None]:
        def ready(_: Any) -> None:
            if self._watch.recording and self._watch.last != NONE:
                self._watch.rows[self._watch.last].tensor = label

        return ready

    def _quiet_propagation(self) -> None:
        """DTensor works out shapes by running operators: those are not the job's."""
        from torch.distributed.tensor._sharding_prop import ShardingPropagator

        def quiet(original: Any) -> Any:
            def propagate(*args: Any, **kwargs: Any) -> Any:
                self._watch.silent += 1
                try:
                    return original(*args, **kwargs)
                finally:
                    self._watch.silent -= 1

            return propagate

        name = "_propagate_tensor_meta_non_cached"
        self._patches.wrap(ShardingPropagator, name, quiet)

    def _tensors(self) -> Iterator[Any]:
        if self.settings.forward:
            yield from dict.fromkeys(each for model in self._models for each in model.parameters())
            return
        for optimizer in self._optimizers.values():
            for group in optimizer.param_groups:
                yield from group["params"]

    def _states(self) -> Iterator[Any]:
        for optimizer in self._optimizers.values():
            for state in optimizer.state.values():
                yield from (one for one in state.values() if isinstance(one, torch.Tensor))

    def _named(self) -> Iterator[tuple[str, Any]]:
        names = {id(p): clean_path(n) for root in self._roots for n, p in root.named_parameters()}
        yield from ((names.get(id(tensor), ""), tensor) for tensor in self._tensors())


def _off(_: Any) -> Callable[[], bool]:
    """torch's fast path makes one operator of a whole encoder layer, which hides its work."""
    return lambda: False


def _local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _total(tensors: list[Any]) -> int:
    return sum(size_of(_local(tensor)) for tensor in tensors)
