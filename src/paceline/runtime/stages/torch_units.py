"""A live model as a chain of units: parts that follow one another, with one tensor between them.

    for unit in units_of(model): x = unit.module(x)      # as model(x)

Found in the model's graph of calls (torch.fx): it may be cut where one value alone lives on. Units
hold the model's own modules. What torch.fx does not see (a context entered inside of forward) it
would leave out, so `require_alike` runs both on the same input and compares.
"""

import operator
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call

from paceline.runtime.exchange import ExchangeError

REPEATS = 3  # of a unit's passes, timed


@dataclass(frozen=True, eq=False)
class Unit:
    """Some calls of a model, with one tensor in and one out."""

    name: str  # the path of the first layer in it
    module: nn.Module


def units_of(model: nn.Module) -> list[Unit]:
    """In the order of the forward pass; each has a layer or more."""
    graph = _traced(model)
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "get_attr", "output")]
    given = [node for node in graph.nodes if node.op == "placeholder"]
    if len(given) != 1 or not nodes:
        raise _refused(f"its model takes {len(given)} arguments, and needs to take one tensor")
    (made,) = next(node for node in graph.nodes if node.op == "output").args
    if made is not nodes[-1]:
        raise _refused("its model does not give one tensor, the result of its last call")
    found: list[Unit] = []
    entry, part = given[0], list[fx.Node]()
    for node, alone in zip(nodes, _live_alone(given[0], nodes)):
        part.append(node)
        if not alone or _is_taken_apart(node):
            continue
        layers = [str(each.target) for each in part if each.op == "call_module"]
        if layers or node is made:
            name = layers[0] if layers else str(node.name)
            found.append(Unit(name, _module(model, entry, part)))
            entry, part = node, []
    return found


def _is_taken_apart(node: fx.Node) -> bool:
    """Several values as one, as an LSTM gives."""
    return bool(node.users) and all(user.target is operator.getitem for user in node.users)


def _live_alone(given: fx.Node, nodes: Sequence[fx.Node]) -> Iterator[bool]:
    """By call: whether of all values so far its result alone is taken later, or given."""
    place = {node: at for at, node in enumerate(nodes)}
    last = {
        node: max((place.get(user, len(nodes)) for user in node.users), default=-1)
        for node in (given, *nodes)
    }
    living = {given}
    for at, node in enumerate(nodes):
        living = {each for each in (*living, node) if last[each] > at}
        yield living == {node}


def _module(model: nn.Module, entry: fx.Node, part: Sequence[fx.Node]) -> nn.Module:
    """The calls as a module of their own, on the model's own layers and tensors."""
    graph = fx.Graph()
    known = {entry: graph.placeholder("given")}

    def copied(node: fx.Node) -> fx.Node:
        if node not in known:  # a tensor of the model, read by several units maybe
            known[node] = graph.node_copy(node)
        return known[node]

    for node in part:
        known[node] = graph.node_copy(node, copied)
    graph.output(known[part[-1]])
    return fx.GraphModule(model, graph)


def _traced(model: nn.Module) -> fx.Graph:
    """With modules of the script opened, or closed where one cannot be followed."""
    for tracer in (fx.Tracer(), _Closed()):
        try:
            return _with_encoders_opened(model, tracer.trace(model))
        except Exception as error:  # noqa: BLE001 - any fault of the model's own Python
            failed = error
    raise _refused(f"torch.fx cannot follow its forward pass ({failed})")


def _with_encoders_opened(model: nn.Module, graph: fx.Graph) -> fx.Graph:
    """Torch's own encoder, called without masks, is its layers in turn."""
    for node in list(graph.nodes):
        called = model.get_submodule(node.target) if node.op == "call_module" else None
        if not isinstance(called, nn.TransformerEncoder) or len(node.args) != 1 or node.kwargs:
            continue
        made, layers = node.args[0], [f"layers.{number}" for number in range(len(called.layers))]
        with graph.inserting_before(node):
            for name in layers if called.norm is None else [*layers, "norm"]:
                made = graph.call_module(f"{node.target}.{name}", (made,))
        node.replace_all_uses_with(made)
        graph.erase_node(node)
    return graph


class _Closed(fx.Tracer):  # type: ignore[misc]
    """Opens the model and what stands in a Sequential."""

    def is_leaf_module(self, module: nn.Module, path: str) -> bool:
        return not isinstance(module, nn.Sequential)


def require_alike(model: nn.Module, units: Sequence[Unit], given: Tensor) -> None:
    """The chain gives the model's own results and gradients; an error where it does not."""
    with untouched(model):
        wanted = _results(model, model, given)
    with untouched(model):
        found = _results(model, _Chain(units), given)
    if not all(map(_agree, wanted, found)):
        raise _refused("its forward pass does something that torch.fx does not see")


def times_of(model: nn.Module, units: Sequence[Unit], given: Tensor) -> list[int]:
    """Nanoseconds of each unit's forward and backward pass, in turn as the model runs them; the
    shortest of some. On one thread what it ran, for other workers may share its core."""
    alone = torch.get_num_threads() == 1
    clock = time.thread_time_ns if alone else time.perf_counter_ns
    with untouched(model):
        rounds = [list(_timed(units, given, clock)) for _ in range(REPEATS)]
    return [min(took) for took in zip(*rounds)]


class Shapes:
    """What every unit gives, without computing it: by tensors without data."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._mode = FakeTensorMode()
        self._units = [(unit.module, self._like(unit.module)) for unit in units]

    def of(self, given: Tensor) -> list[Tensor]:
        """The input, and what each unit makes of it."""
        with self._mode, torch.no_grad():
            found = [torch.empty(given.shape, dtype=given.dtype)]
            for module, held in self._units:
                found.append(functional_call(module, held, found[-1]))
        return found

    def _like(self, module: nn.Module) -> dict[str, Any]:
        held = [*module.named_parameters(), *module.named_buffers()]
        return {name: self._mode.from_tensor(tensor) for name, tensor in held}


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Random numbers and buffers are as before in the end."""
    before = [buffer.clone() for buffer in model.buffers()]
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        with torch.no_grad():
            for buffer, kept in zip(model.buffers(), before):
                buffer.copy_(kept)


class _Chain(nn.Module):  # type: ignore[misc]
    def __init__(self, units: Sequence[Unit]) -> None:
        super().__init__()
        self._units = units

    def forward(self, given: Tensor) -> Tensor:
        for unit in self._units:
            given = unit.module(given)
        return given


def _agree(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool(torch.allclose(one, other, rtol=1e-4, atol=1e-6))


def _results(model: nn.Module, called: nn.Module, given: Tensor) -> list[Tensor | None]:
    """What it gives, and a gradient of each trained weight; None of one that gets none."""
    made = called(given)
    if not isinstance(made, Tensor) or not made.is_floating_point():
        raise _refused("its model does not give one tensor of numbers")
    trained = [p for p in model.parameters() if p.requires_grad]
    weights = torch.linspace(-1, 1, made.numel(), dtype=made.dtype).view(made.shape)
    gradients = torch.autograd.grad(made, trained, weights, allow_unused=True)
    return [made.detach(), *gradients]


def _timed(units: Sequence[Unit], given: Tensor, clock: Callable[[], int]) -> Iterator[int]:
    for number, unit in enumerate(units):
        entry = given.detach()
        if number:
            entry = entry.requires_grad_(entry.is_floating_point())
        began = clock()
        made = unit.module(entry)
        wanted: list[Any] = [p for p in unit.module.parameters() if p.requires_grad]
        wanted += [entry] if entry.requires_grad else []
        if made.requires_grad:
            torch.autograd.grad(made, wanted, torch.ones_like(made), allow_unused=True)
        yield clock() - began
        given = made


def _refused(why: str) -> ExchangeError:
    return ExchangeError(f"this job cannot be cut into stages: {why}; leave pipeline out")
