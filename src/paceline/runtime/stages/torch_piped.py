"""A live DDP job trained as a pipeline, until the context is left.

Every worker runs one stage of the model, for its own batch and for those of the other workers of
its pipeline. Where the model is cut, its first training batch shows: parts are timed on it, and
proved to give what the model gives.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_iter

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective
from paceline.graph.stage_costs import about_balanced
from paceline.runtime.exchange import ExchangeError, Sent
from paceline.runtime.parts.torch_cuttable import require_same_use, sole_replica
from paceline.runtime.run import Run
from paceline.runtime.stages.dealt import Dealt, Piped
from paceline.runtime.stages.torch_averaging import average
from paceline.runtime.stages.torch_dealt import CalledBatch, Dealing, Looks, StageWork
from paceline.runtime.stages.torch_links import Seat
from paceline.runtime.stages.torch_mail import Look, Mail
from paceline.runtime.stages.torch_norms import never_clipped, norms_over
from paceline.runtime.stages.torch_owned import Owned, StageTensors
from paceline.runtime.stages.torch_stage import Piece, Stage
from paceline.runtime.stages.torch_units import Shapes, Unit, require_alike, times_of, units_of
from paceline.runtime.stages.torch_versions import Leaves, WeightVersions
from paceline.runtime.torch_attributes import instead
from paceline.runtime.torch_forward import forward_as
from paceline.runtime.torch_groups import new_groups, require_gloo
from paceline.runtime.torch_optimizers import evaluated, only, require_known
from paceline.runtime.torch_reducer import without_reducer


@contextmanager
def piped(run: Run, asked: Piped, sent: Sent) -> Iterator[None]:
    """All workers come here together, and leave together unless by an error."""
    replica, stages = _required(run, asked.dealt), asked.dealt.shape.stages
    ranks = dist.get_process_group_ranks(replica.process_group)
    place, width = dist.get_rank(replica.process_group), len(ranks) // stages
    seat = Seat(place, stages, width)
    pipeline = tuple(ranks[seat.replica * stages : (seat.replica + 1) * stages])
    alike = tuple(ranks[seat.stage :: stages])
    with ExitStack() as stack:
        groups = stack.enter_context(new_groups({pipeline, alike}))
        talks = stack.enter_context(new_groups([pipeline]))
        stack.enter_context(without_reducer(replica))
        owned = Owned(replica.module, run.optimizer, talks[pipeline], asked.dealt.flushes)
        messages = 2 * asked.dealt.shape.microbatches
        mail = Mail(groups[pipeline], pipeline, seat.stage, messages, sent)
        job = Piping(run, asked, seat, owned, mail, groups[alike])
        stack.enter_context(owned.holding())
        if asked.dealt.flushes:
            stack.enter_context(norms_over(groups[pipeline], job.weights))
        else:
            stack.enter_context(never_clipped(job.weights))
        stack.enter_context(instead(replica, "join", lambda _: _refuse_join))
        stack.enter_context(job.installed(sent))
        yield


class Piping:
    """The job as this worker sees it."""

    def __init__(
        self, run: Run, asked: Piped, seat: Seat, owned: Owned, mail: Mail, alike: Any
    ) -> None:
        self._asked, self._dealt, self._seat, self._owned = asked, asked.dealt, seat, owned
        self._mail, self._alike, self._sent = mail, alike, mail.sent
        (self._replica,), self._optimizer = run.replicas, run.optimizer
        self._dealing: Dealing | None = None  # from the first batch on, and what it shows:
        self._shapes: Shapes
        self._edges: list[int]  # before which units something passes to another worker
        self._pieces: list[nn.Module] = []  # this worker's chunks
        self._versions: list[WeightVersions] = []  # of them, where there are several
        self._settings: dict[int, list[dict[str, Any]]] = {}  # of the optimizer, by batch
        self._known: dict[Any, Looks] = {}  # by what batches look like
        self._proving = False
        self._true_step: Callable[..., Any] = self._optimizer.step

    @contextmanager
    def installed(self, sent: Sent) -> Iterator[None]:
        model = self._replica.module

        def update(step: Callable[..., Any]) -> Callable[..., Any]:
            if self._dealt.flushes:
                return self._owned.answers.stepping(step, sent.stepped)
            return self._later(step, sent)

        with ExitStack() as stack:
            stack.enter_context(forward_as(self._replica, lambda _: partial(self._called)))
            before = model.register_forward_pre_hook(self._alone, prepend=True)
            stack.callback(before.remove)
            stack.callback(model.register_forward_hook(self._guarded).remove)
            stack.enter_context(instead(self._optimizer, "step", update))
            yield
            if self._dealing is not None:
                self._dealing.end()

    def weights(self) -> list[Tensor]:
        """Those that this worker trains."""
        return [weight for piece in self._pieces for weight in piece.parameters()]

    def _called(self, *given: Any, **named: Any) -> Any:
        """DDP's forward."""
        model = self._replica.module
        if not (torch.is_grad_enabled() and model.training):
            return model(*given, **named)
        batch = _sole_tensor(given, named)
        if len(batch) < self._dealt.each:
            raise _refused(
                f"a batch has {len(batch)} samples, which do not make {self._dealt.each} "
                "micro-batches"
            )
        if self._dealing is None:
            self._dealing = self._begin(batch)
        self._owned.part()
        reduces = self._replica.require_backward_grad_sync
        return self._dealing.forward(batch, self._looks(batch), reduces)

    def _alone(self, model: Any, *_: Any) -> None:
        """The whole model runs on this worker."""
        if self._proving:
            return
        if torch.is_grad_enabled() and model.training:
            raise _refused("its script trains the model without DistributedDataParallel, too")
        self._owned.whole()

    def _guarded(self, _: Any, __: Any, made: Any) -> None:
        if not self._proving:
            for each in tree_iter(made):
                if isinstance(each, Tensor) and each.requires_grad:
                    each.register_hook(_refuse_to_train)

    def _begin(self, batch: Tensor) -> Dealing:
        """Cut the model; this worker takes its pieces."""
        model, part = self._replica.module, batch.tensor_split(self._dealt.each)[0]
        units = units_of(model)
        with self._passing_by():
            require_alike(model, units, part)
            took = times_of(model, units, part)
        self._shapes = Shapes(units)
        passing = [made.numel() * made.element_size() for made in self._shapes.of(part)[1:]]
        cuts = self._cuts(units, took, passing)
        ends = list(zip((0, *cuts), (*cuts, len(units))))
        pieces = [nn.Sequential(*(unit.module for unit in units[a:b])) for a, b in ends]
        _require_apart(pieces)
        self._edges = [0, *(end for _, end in ends)]
        stages, mine = self._seat.stages, self._seat.stage
        held = [_held(pieces[stage::stages]) for stage in range(stages)]
        self._owned.deal(held, mine)
        self._pieces = pieces[mine::stages]
        self._owned.part()
        if not self._dealt.flushes:
            self._versions = [WeightVersions(piece, 2) for piece in self._pieces]
        chunks = [Stage(Piece(piece)) for piece in self._pieces]
        return Dealing(self._dealt, mine, StageWork(chunks, self._leaves, self._update), self._mail)

    @contextmanager
    def _passing_by(self) -> Iterator[None]:
        """The model is called, and not by the script."""
        self._proving = True
        try:
            yield
        finally:
            self._proving = False

    def _cuts(
        self, units: Sequence[Unit], took: Sequence[int], passing: Sequence[int]
    ) -> tuple[int, ...]:
        """Before which units; the first worker tells all."""
        names, count = [unit.name for unit in units], self._dealt.shape
        wanted = count.stages * count.chunks
        if len(units) < wanted:
            raise _refused(
                f"one tensor alone passes between {len(units)} parts of its model, and "
                f"{wanted} pieces were asked for"
            )
        told: list[Any] = [None]
        if not self._asked.begins:
            told = [about_balanced(took, passing, wanted)]
        else:
            missing = [name for name in self._asked.begins if name not in names]
            if missing or len(self._asked.begins) != wanted - 1:
                raise _refused(
                    f"{wanted} pieces begin at {wanted - 1} layers behind the first, out of "
                    f"{', '.join(names)}; asked for were {', '.join(self._asked.begins)}"
                )
            told = [tuple(sorted(names.index(name) for name in self._asked.begins))]
        group = self._replica.process_group
        dist.broadcast_object_list(told, dist.get_process_group_ranks(group)[0], group)
        return tuple(told[0])

    def _looks(self, batch: Tensor) -> Looks:
        """Of a batch of that shape, by edge and micro-batch; what autocast makes of it, too."""
        casts = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        kind = batch.shape, batch.dtype, casts
        if kind not in self._known:
            parts = batch.tensor_split(self._dealt.each)
            by_size = {len(part): self._shapes.of(part) for part in parts}
            self._known[kind] = [
                [_look(by_size[len(part)][at]) for part in parts] for at in self._edges
            ]
        return self._known[kind]

    def _leaves(self, chunk: int, batch: int) -> Leaves | None:
        if not self._versions:
            return None
        return self._versions[chunk].leaves(max(batch - 1, 0))

    def _update(self, batch: CalledBatch) -> None:
        """All micro-batches of a batch have gone back through this stage."""
        if self._versions:
            self._step_of(batch)
        elif batch.reduces:
            self._reduce([w.grad for w in self.weights() if w.grad is not None])

    def _reduce(self, gradients: list[Tensor]) -> None:
        replicas = self._seat.replicas
        if replicas > 1:
            if self._dealt.flushes:  # else who takes it may do so in the next batch
                self._mail.drain()  # what other stages wait for goes first
            size = average(gradients, self._alike, replicas)
            self._sent.call(size, round(size * sent_share(Collective.ALL_REDUCE, replicas)))

    def _later(self, step: Callable[..., Any], sent: Sent) -> Callable[..., Any]:
        """The script's update is made once its batch has gone back on all stages, by the settings
        that the optimizer has now."""
        self._true_step = step

        def update(closure: Callable[[], Any] | None = None) -> Any:
            loss = evaluated(closure)
            if self._dealing is None:
                step()
                return loss
            number = self._dealing.begun - 1
            self._settings[number] = [_settings(group) for group in self._optimizer.param_groups]
            sent.stepped()
            return loss

        return update

    def _step_of(self, batch: CalledBatch) -> None:
        settings = self._settings.pop(batch.number, None)
        if settings is None or not batch.reduces:
            raise _refused("its script does not update behind every batch, as 2bw has to")
        used = max(batch.number - 1, 0)
        with self._owned.answers.changing():
            for versions in self._versions:
                self._reduce(versions.gradients(used))
                with only(self._optimizer, set(map(id, self.weights())), settings):
                    versions.update(_Updates(self._true_step), used)


class _Updates:
    """An optimizer's own step."""

    def __init__(self, step: Callable[[], Any]) -> None:
        self.step = step


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


def _held(pieces: Sequence[nn.Module]) -> StageTensors:
    weights = [weight for piece in pieces for weight in piece.parameters()]
    return StageTensors(weights, [buffer for piece in pieces for buffer in piece.buffers()])


def _look(tensor: Tensor) -> Look:
    return Look(tuple(tensor.shape), tensor.dtype)


def _sole_tensor(given: Sequence[Any], named: Mapping[str, Any]) -> Tensor:
    if len(given) != 1 or named or not isinstance(given[0], Tensor) or not given[0].dim():
        raise _refused("its model is not called with one tensor of samples")
    return given[0]


def _require_apart(pieces: Sequence[nn.Module]) -> None:
    """No weight in two of them, and some in each."""
    every = [id(weight) for piece in pieces for weight in piece.parameters()]
    if len(every) > len(set(every)):
        raise _refused("two parts of its model share a weight, which would lie in two stages")
    if any(not any(w.requires_grad for w in piece.parameters()) for piece in pieces):
        raise _refused("a stage would hold no weight that is trained")


def _required(run: Run, dealt: Dealt) -> Any:
    replica = sole_replica(run, _refused)
    require_same_use(replica, _refused)
    require_gloo(replica.process_group, "a pipeline of an unchanged script")
    require_known(run.optimizer)
    workers, stages = dist.get_world_size(replica.process_group), dealt.shape.stages
    if workers % stages:
        raise _refused(f"its {workers} workers cannot be put together by {stages}")
    return replica


def _refuse_join(*_: Any, **__: Any) -> NoReturn:
    raise _refused("it lets some workers end early (DistributedDataParallel.join)")


def _refuse_to_train(_: Tensor) -> NoReturn:
    raise _refused("its script trains in eval(), where every worker runs the whole model")


def _refused(why: str) -> ExchangeError:
    return ExchangeError(f"this job cannot go on as a pipeline: {why}; leave pipeline out")
