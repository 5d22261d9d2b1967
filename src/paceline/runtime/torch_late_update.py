"""Each parameter is updated when its gradient has arrived, as late as its next use.

DDP no longer waits for its buckets at the end of backward. The optimizer's `step` only says that
updates may be made, with the learning rate and other settings of that moment; a bucket is waited
for, and its parameters are updated, before the first module that needs one of them runs. Reading
weights by `state_dict` waits for all.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from paceline.runtime.exchange import ExchangeError
from paceline.runtime.run import Run
from paceline.runtime.torch_attributes import instead
from paceline.runtime.torch_bucket_updates import (
    Settings,
    Untouched,
    behind_backward,
    gradients_in,
    settings_of,
    update,
)
from paceline.runtime.torch_optimizers import evaluated, only, require_per_parameter

Hook = Callable[[None, Any], Any]


@dataclass(eq=False)
class LateBucket:
    """Gradients on their way."""

    parameters: list[Any]
    gradients: list[Any]  # where they will lie; None of parameters that no rank used
    arrived: Any  # a future of torch
    settings: Settings | None = None  # once the optimizer stepped


class LateUpdates:
    """Of one plan: what is on its way, and what each gradient looked like behind backward."""

    def __init__(self, run: Run) -> None:
        _require_separate(run)
        self._optimizer, self._run = run.optimizer, run
        self._pending: dict[int, LateBucket] = {}  # by `id` of each parameter
        self._gradients = Untouched("overlap_update", run.names)

    def behind(self, hook: Hook) -> Hook:
        """A hook that leaves the exchange under way; DDP goes on with the rank's own gradients."""

        def begin(state: None, bucket: Any) -> Any:
            parameters = bucket.parameters()
            self._require_settled(parameters)
            kept = LateBucket(parameters, gradients_in(bucket), hook(state, bucket))
            self._pending.update(dict.fromkeys(map(id, parameters), kept))
            if bucket.is_last():
                behind_backward(self._note)
            done: Any = torch.futures.Future()
            done.set_result(bucket.buffer())
            return done

        return begin

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Modules wait for their weights, and the optimizer's step only allows updates."""
        with ExitStack() as stack:
            for module in self._run.model.modules():
                if any(True for _ in module.parameters(recurse=False)):
                    stack.callback(module.register_forward_pre_hook(self._before_forward).remove)
                settle = module.register_state_dict_pre_hook(lambda *_: self.settle())
                stack.callback(settle.remove)
            kept = self._optimizer.register_state_dict_pre_hook(lambda _: self.settle())
            stack.callback(kept.remove)
            stack.enter_context(self._allowing())
            stack.callback(self.settle)
            yield

    def settle(self) -> None:
        """Wait for all that is under way, and make the updates that are allowed."""
        for bucket in list(dict.fromkeys(self._pending.values())):
            bucket.arrived.wait()
            self._update(bucket)

    @contextmanager
    def _allowing(self) -> Iterator[None]:
        optimizer = self._optimizer

        def allowing(step: Callable[..., Any]) -> Callable[..., Any]:
            def allow(closure: Callable[[], Any] | None = None) -> Any:
                loss = evaluated(closure)
                self._gradients.require()
                settings = settings_of(optimizer)
                for bucket in self._pending.values():
                    bucket.settings = settings
                with only(optimizer, set(), settings):  # for those who listen to steps
                    step()
                return loss

            return allow

        with instead(optimizer, "step", allowing):
            yield

    def _before_forward(self, module: nn.Module, _: Any) -> None:
        for parameter in module.parameters():
            bucket = self._pending.get(id(parameter))
            if bucket is not None and bucket.settings is not None:
                bucket.arrived.wait()
                self._update(bucket)

    def _update(self, bucket: LateBucket) -> None:
        if bucket.settings is None:
            return
        for parameter in bucket.parameters:
            del self._pending[id(parameter)]
        update(self._optimizer, bucket.parameters, bucket.gradients, bucket.settings)

    def _note(self) -> None:
        """What backward left behind. A parameter that no rank used has none, and an optimizer
        leaves it alone."""
        for bucket in dict.fromkeys(self._pending.values()):
            pairs = zip(bucket.parameters, bucket.gradients)
            bucket.gradients = [None if p.grad is None else gradient for p, gradient in pairs]
            self._gradients.note(bucket.parameters)

    def _require_settled(self, parameters: list[Any]) -> None:
        for parameter in parameters:
            bucket = self._pending.get(id(parameter))
            if bucket is None:
                continue
            name = self._run.names.get(id(parameter), "a parameter")
            why = (
                "there were two backward passes before the optimizer's step"
                if bucket.settings is None
                else "it was used outside the module that owns it, before its update"
            )
            raise ExchangeError(f"{name} cannot be updated late: {why}; leave overlap_update out")


def _require_separate(run: Run) -> None:
    require_per_parameter(run.optimizer)
    if any(replica.gradient_as_bucket_view for replica in run.replicas):
        raise ExchangeError(
            "with gradient_as_bucket_view a parameter's gradient is the buffer that travels, so it "
            "cannot be seen whether the script changes it; leave overlap_update out of the plan"
        )
