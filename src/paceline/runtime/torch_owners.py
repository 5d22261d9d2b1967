"""Each rank updates the parameters that it owns, and gathers the weights of the others.

The state of others' parameters is not kept. Whoever wants all of it, for a checkpoint or at the
end, asks the owners one by one (`torch_answers`). No owner can be in an update then, for its next
gradients need the rank that asks.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.distributed as dist

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective
from paceline.graph.sharded_update import owners
from paceline.runtime.exchange import ExchangeError, Sent
from paceline.runtime.run import Run
from paceline.runtime.torch_answers import Answers
from paceline.runtime.torch_attributes import instead
from paceline.runtime.torch_groups import new_groups, require_gloo
from paceline.runtime.torch_optimizers import evaluated, only, require_per_parameter


@contextmanager
def owning(run: Run, sent: Sent) -> Iterator[None]:
    """Left by an error, the state is fetched from owners that still answer."""
    require_per_parameter(run.optimizer)
    group = _group(run)
    ranks = tuple(dist.get_process_group_ranks(group))
    with new_groups([ranks]) as made, ExitStack() as stack:
        shared = Owned(run.optimizer, made[ranks], sent)
        stack.enter_context(instead(run.optimizer, "step", shared.stepping))
        for remove in shared.listening():
            stack.callback(remove)
        shared.drop()
        try:
            yield
        finally:
            shared.fill()
        shared.stop()


class Owned:
    """An optimizer whose parameters have owners among the ranks of a group."""

    def __init__(self, optimizer: Any, group: Any, sent: Sent) -> None:
        self._optimizer, self._group, self._sent = optimizer, group, sent
        self._ranks = dist.get_process_group_ranks(group)
        self._me = self._ranks.index(dist.get_rank())
        self._all = [p for g in optimizer.param_groups for p in g["params"] if p.requires_grad]
        sizes = [p.numel() * p.element_size() for p in self._all]
        self._owner = owners(sizes, len(self._ranks))
        self._longest = max(
            sum(p.numel() for p in self._of(rank)) for rank in range(len(self._ranks))
        )
        self._answers = Answers(group, lambda _: self._states())

    def listening(self) -> Iterator[Callable[[], None]]:
        """A checkpoint holds all states; of a loaded one each rank keeps its own."""
        optimizer = self._optimizer
        yield optimizer.register_state_dict_pre_hook(lambda _: self.fill()).remove
        yield optimizer.register_state_dict_post_hook(lambda *_: self.drop()).remove
        yield optimizer.register_load_state_dict_post_hook(lambda _: self.drop()).remove

    def stepping(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def update(closure: Callable[[], Any] | None = None) -> Any:
            loss = evaluated(closure)
            with only(self._optimizer, set(map(id, self._of(self._me)))):
                step()
            self._gather()
            return loss

        return update

    def drop(self) -> None:
        """Keep the states of own parameters alone."""
        for parameter, owner in zip(self._all, self._owner):
            if owner != self._me:
                self._optimizer.state.pop(parameter, None)

    def fill(self) -> None:
        """Fetch the states of all others."""
        for place in range(len(self._ranks)):
            if place != self._me:
                found = zip(self._of(place), self._answers.ask(place))
                self._optimizer.state.update({p: state for p, state in found if state})

    def stop(self) -> None:
        self._answers.stop()

    def _states(self) -> list[dict[str, Any]]:
        return [dict(self._optimizer.state.get(p, {})) for p in self._of(self._me)]

    def _of(self, place: int) -> list[Any]:
        return [p for p, owner in zip(self._all, self._owner) if owner == place]

    def _gather(self) -> None:
        """New weights of all owners, in parts as long as the longest."""
        mine = torch.zeros(self._longest, device=self._all[0].device)
        own = [parameter.detach().flatten() for parameter in self._of(self._me)]
        if own:
            torch.cat(own, out=mine[: sum(map(len, own))])
        parts = [torch.empty_like(mine) for _ in self._ranks]
        dist.all_gather(parts, mine, group=self._group)
        size = len(parts) * mine.numel() * mine.element_size()
        share = sent_share(Collective.ALL_GATHER, len(parts))
        self._sent.call(size, round(size * share))
        for place, part in enumerate(parts):
            theirs = self._of(place) if place != self._me else []
            for parameter, new in zip(theirs, part.split_with_sizes(_cut(theirs, len(part)))):
                parameter.data.copy_(new.view_as(parameter))


def _cut(parameters: list[Any], whole: int) -> list[int]:
    """Lengths of the parameters, and of what is left behind them."""
    sizes = [parameter.numel() for parameter in parameters]
    return [*sizes, whole - sum(sizes)]


def _group(run: Run) -> Any:
    groups = {id(replica.process_group): replica.process_group for replica in run.replicas}
    if len(groups) != 1:
        raise ExchangeError(
            f"the job has DDP modules in {len(groups)} groups; zero1 cuts the update among the "
            "replicas of one"
        )
    group = next(iter(groups.values()))
    require_gloo(group, "an update that is cut among replicas (zero1)")
    kinds = {p.dtype for g in run.optimizer.param_groups for p in g["params"]}
    if kinds != {torch.float32}:
        raise ExchangeError("zero1 gathers float32 weights, and this job has others; leave it out")
    return group
