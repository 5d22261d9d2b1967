"""Weight versions of one stage: one, or two for 2BW's delayed update.

Version v lives in buffer v modulo the number of buffers. A micro-batch computes with the leaves of
its version, whose `.grad` adds up the gradients of a whole batch; `update` turns them into the next
version. The optimizer sees the module's own parameters, whose storage is the newest version's, so
that its state needs no copy (momentum and Adam take the one batch old gradient as it is).
"""

import torch
from torch import Tensor, nn

Leaves = dict[str, Tensor]


class WeightVersions:
    """The buffers, and which of them is newest."""

    def __init__(self, module: nn.Module, count: int) -> None:
        self._parameters = dict(module.named_parameters())
        self._buffers: list[Leaves] = [self._copy() for _ in range(count)]
        self.newest = 0
        self._point_parameters()

    def leaves(self, version: int) -> Leaves:
        """The weights of a version, to compute with."""
        oldest = max(0, self.newest + 1 - len(self._buffers))
        assert oldest <= version <= self.newest, f"version {version} is not kept"
        return self._buffers[version % len(self._buffers)]

    def update(self, optimizer: torch.optim.Optimizer, used: int) -> None:
        """W(newest + 1) = W(newest) changed by the optimizer along the gradient at W(used)."""
        source, target = self.leaves(self.newest), self._buffers[(self.newest + 1) % self.count]
        gradients = {name: leaf.grad for name, leaf in self.leaves(used).items()}
        if target is not source:
            with torch.no_grad():
                torch._foreach_copy_(list(target.values()), list(source.values()))
        self.newest += 1
        self._point_parameters()
        for name, parameter in self._parameters.items():
            parameter.grad = gradients[name]
        optimizer.step()
        self._forget_gradients()

    @property
    def count(self) -> int:
        return len(self._buffers)

    def gradients(self, version: int) -> list[Tensor]:
        """What the batch has added up so far, a tensor a trained parameter."""
        return [leaf.grad for leaf in self.leaves(version).values() if leaf.grad is not None]

    def state(self) -> list[dict[str, Tensor]]:
        """The weights of all buffers, to be saved."""
        return [{n: leaf.detach().clone() for n, leaf in b.items()} for b in self._buffers]

    def restore(self, state: list[dict[str, Tensor]], newest: int) -> None:
        with torch.no_grad():
            for buffer, saved in zip(self._buffers, state):
                for name, leaf in buffer.items():
                    leaf.copy_(saved[name])
        self.newest = newest
        self._point_parameters()

    def _copy(self) -> Leaves:
        return {
            name: parameter.detach().clone().requires_grad_(parameter.requires_grad)
            for name, parameter in self._parameters.items()
        }

    def _point_parameters(self) -> None:
        """The module's parameters share the storage of the newest version."""
        buffer = self._buffers[self.newest % self.count]
        for name, parameter in self._parameters.items():
            parameter.data = buffer[name].data

    def _forget_gradients(self) -> None:
        for parameter in self._parameters.values():
            parameter.grad = None
        for buffer in self._buffers:
            for leaf in buffer.values():
                leaf.grad = None
