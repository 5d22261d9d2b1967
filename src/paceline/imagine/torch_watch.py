"""`Watch`: sees every torch operator and collective of an imagined rank, and keeps a row of each.

Operators come by torch's dispatcher, below autograd and below tensor subclasses, so that a DTensor
counts as the local tensor it is. Waits, and who reads it, show what waits for a collective.
"""

import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from paceline.graph import NONE, Collective, DType, OpKind, Phase
from paceline.imagine.imagined import ImaginedOp
from paceline.imagine.torch_lifetimes import Lifetimes
from paceline.imagine.torch_shapes import Works
from paceline.imagine.torch_work import flops_of, size_of, tensors, touched_bytes
from paceline.trace.spelling import collective_of, dtype_of

_PLAIN = torch._C._disabled_torch_dispatch_impl
_SCALAR = torch.ops.aten._local_scalar_dense.default
_VIEW = torch.ops.aten._unsafe_view.default  # a view, though its schema does not say so
_DEVICE = torch.ops.prim.device.default
_TALK = {"c10d", "_c10d_functional", "_c10d_functional_autograd"}
_MESSAGES = {"send": OpKind.SEND, "recv_": OpKind.RECV, "recv_any_source_": OpKind.RECV}
_SHARED_OUT = (Collective.GATHER, Collective.SCATTER)  # only the root holds the whole


class Watch(TorchDispatchMode):
    """Keeps rows while `recording`."""

    def __init__(self, *, gpu: bool = False) -> None:
        super().__init__()
        self.rows: list[ImaginedOp] = []
        self.recording = False
        self.silent = 0  # above 0: torch works something out for itself
        self.phase = Phase.FORWARD
        self.step = 0
        self.layers: list[int] = []  # ids of the modules whose forward runs, outermost first
        self.owners: list[int] = []  # of each row: id of its module, or NONE
        self.values_read = 0
        self.works = Works(gpu=gpu)
        self.memory = Lifetimes(lambda: len(self.rows) - 1)
        self._owner_of_node: dict[int, int] = {}  # autograd number -> id of a module
        self.last = NONE  # row of the rank's own lane
        self._calls = 0  # of operators since the last row
        self._read_after = NONE
        # storage -> row of the collective that fills it, and whether the storage is still there
        self._writers: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._awaited: list[int] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and guarding each call against it costs time

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(t.__torch_dispatch__ is not _PLAIN and t is not FakeTensor for t in types):
            return NotImplemented
        if func is _DEVICE and type(args[0]) is FakeTensor:
            return args[0].fake_device
        if func is _SCALAR:
            return self._value(args[0])
        if func.namespace == "profiler":
            with torch._C._DisableTorchDispatch():
                return func(*args, **(kwargs or {}))
        given = kwargs or {}
        out = func(*args, **given)
        if not self.silent:
            self._note(func, args, given, out)
        return out

    def wait_for(self, rows: list[int]) -> None:
        """The rank's own next row waits for these."""
        self._awaited += rows

    def _note(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        self._remember_owner()
        if not self.recording:
            return
        self._calls += func.namespace != "prim"
        if func.namespace in _TALK:
            self._talk(func, args, kwargs, out)
        elif not func.is_view and func is not _VIEW and func.namespace != "prim":
            self._work(func, args, kwargs, out)

    def _work(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        given, made = list(tensors((args, kwargs))), list(tensors(out))
        for tensor in given:
            self.memory.known(tensor)
        filled = _is_factory(func) or not given
        size = _filled(func, made) if filled else touched_bytes(func, args, kwargs, out)
        flops = flops_of(func, args, kwargs, out)
        if size or flops:
            after = [*self._awaited, *self._written_by_others(given)]
            self._awaited = []
            row = self._row(func, OpKind.COMPUTE, self.phase, size, _dtype(made or given))
            row.flops, row.after = flops, sorted(set(after))
            row.work = self.works.number(func, args, kwargs, DType(row.dtype))
            self.last = len(self.rows) - 1
        for tensor in made:
            self.memory.made(tensor, max(0, len(self.rows) - 1), self.phase)

    def _talk(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        touched = list(tensors((args, kwargs, out)))
        name = func.overloadpacket.__name__
        if name.startswith("wait_tensor"):
            self.wait_for(self._written_by_others(touched))
            return
        fields = dict(zip((spec.name for spec in func._schema.arguments), args)) | kwargs
        group = _group_of(fields)
        row = self._row(func, _kind(name), Phase.COMMUNICATION, 0, _dtype(touched))
        row.collective = _collective(name)
        row.group = group.group_name
        row.size_bytes = _whole(row.collective, group.size(), (*args, out))
        row.peer = _peer(fields, group)
        row.after = [] if self.last == NONE else [self.last]
        row.after += self._written_by_others(touched)
        for tensor in touched:
            self.memory.known(tensor)
            storage = tensor.untyped_storage()
            self._writers[storage._cdata] = (len(self.rows) - 1, weakref.ref(storage))

    def _row(self, func: Any, kind: OpKind, phase: Phase, size: int, dtype: DType) -> ImaginedOp:
        name = func.overloadpacket.__name__
        row = ImaginedOp(name, kind, phase, size, 0, dtype, self.step)
        row.calls, self._calls = self._calls, 0
        row.read_after, self._read_after = self._read_after, NONE
        self.rows.append(row)
        self.owners.append(self._owner())
        return row

    def _written_by_others(self, touched: list[torch.Tensor]) -> list[int]:
        """Collectives that fill what is touched now, and that nobody has waited for."""
        keys = {tensor.untyped_storage()._cdata for tensor in touched}
        found = [self._writers.pop(key) for key in keys if key in self._writers]
        return [row for row, storage in found if storage() is not None]

    def _remember_owner(self) -> None:
        if self.layers and self.phase is Phase.FORWARD:
            number = torch.autograd._get_sequence_nr() - 1
            self._owner_of_node.setdefault(number, self.layers[-1])

    def _owner(self) -> int:
        if self.layers:
            return self.layers[-1]
        node = torch._C._current_autograd_node()
        return NONE if node is None else self._owner_of_node.get(node._sequence_nr(), NONE)

    def _value(self, tensor: torch.Tensor) -> Any:
        """There is no value to read: a one of the right type."""
        if self.phase is not Phase.UPDATE:  # optimizers count their own steps
            self.values_read += 1
            self._read_after = self.last
        if tensor.dtype is torch.bool:
            return True
        return 1.0 if tensor.is_floating_point() else 1


def _is_factory(func: Any) -> bool:
    """Also those that take a tensor's shape, of which they read nothing."""
    name = str(func.overloadpacket.__name__)
    return name.startswith(("empty", "new_")) or name.endswith("_like")


def _filled(func: Any, made: list[torch.Tensor]) -> int:
    """Bytes that a factory writes; an empty one writes none."""
    name = func.overloadpacket.__name__
    return 0 if name.startswith(("empty", "new_empty")) else sum(map(size_of, made))


def _dtype(found: list[torch.Tensor]) -> DType:
    floating = [tensor for tensor in found if tensor.is_floating_point()] or found
    return dtype_of(str(floating[0].dtype)) if floating else DType.NONE


def _kind(name: str) -> OpKind:
    return _MESSAGES.get(name, OpKind.COLLECTIVE)


def _collective(name: str) -> Collective:
    return Collective.POINT_TO_POINT if name in _MESSAGES else collective_of(name)


def _group_of(fields: dict[str, Any]) -> Any:
    if "group_name" in fields:
        return dist.distributed_c10d._resolve_process_group(fields["group_name"])
    return dist.ProcessGroup.unbox(fields["process_group"])


def _peer(fields: dict[str, Any], group: Any) -> int:
    """The other end of a message, as a rank of the whole job."""
    local = fields.get("dst", fields.get("src", NONE))
    return NONE if local == NONE else dist.get_global_rank(group, int(local))


def _whole(collective: int, members: int, values: tuple[Any, ...]) -> int:
    """Bytes of the whole tensor: what is gathered, or what is shared out."""
    sizes = [sum(map(size_of, tensors(value))) for value in values]
    local = min((size for size in sizes if size), default=0)
    return max(*sizes, local * members if collective in _SHARED_OUT else 0)
