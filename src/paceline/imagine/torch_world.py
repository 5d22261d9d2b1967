"""A world that is not there: one process that believes itself a rank of many, without any data.

Process groups become torch's fake ones. What reads values to work (device meshes, data loaders)
runs for real and is made fake afterwards; what needs another rank's answer is refused.
"""

import os
import types
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed import device_mesh, distributed_c10d
from torch.nn.parallel import distributed as replicas
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only
from torch.utils.data import dataloader

from paceline.imagine.imagined import ImagineError
from paceline.imagine.torch_chunks import cut_on_demand
from paceline.imagine.torch_reducer import NoLogger, Reducer
from paceline.record.torch_patch import Patches

_UNTOUCHED = ("__repr__", "__hash__", "__eq__", "__enter__", "__exit__")
_FROM_OTHERS = ("recv_object_list", "scatter_object_list")


def environment(rank: int, world_size: int) -> Mapping[str, str]:
    """What a launcher would have given the process."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }


class World:
    """The patches that are in place between `enter` and `leave`."""

    def __init__(self, rank: int, world_size: int, fake_mode: Any) -> None:
        self.rank, self.world_size = rank, world_size
        self.notes: list[str] = []
        self.reducers: list[Reducer] = []
        self._fake_mode = fake_mode
        self._patches = Patches()
        self._before: dict[str, str | None] = {}

    def enter(self) -> None:
        given = environment(self.rank, self.world_size)
        self._before = {name: os.environ.get(name) for name in given}
        os.environ.update(given)
        self._groups()
        self._objects()
        self._meshes()
        self._replicas()
        self._loaders()
        self._compilers()
        self._moves()
        cut_on_demand(self._patches)

    def leave(self) -> None:
        self._patches.undo()
        if dist.is_initialized():
            dist.destroy_process_group()
        for name, value in self._before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    def _groups(self) -> None:
        """Whatever back end a script names, its groups are fake."""

        def joined(original: Any) -> Any:
            def init(*_: Any, **__: Any) -> None:
                original("fake", store=FakeStore(), rank=self.rank, world_size=self.world_size)

            return init

        def fake(original: Any) -> Any:
            def helper(*args: Any, **kwargs: Any) -> Any:
                given = signature(original).bind(*args, **kwargs)
                given.arguments |= {"backend": "fake", "backend_options": None}
                return original(*given.args, **given.kwargs)

            return helper

        self._everywhere("init_process_group", (dist, distributed_c10d), joined)
        self._patches.wrap(distributed_c10d, "_new_process_group_helper", fake)

    def _objects(self) -> None:
        """Python objects are sent nowhere: each rank gets its own; what only others know fails."""

        def gathered(_: Any) -> Any:
            def gather(objects: list[Any], mine: Any, *_: Any, **__: Any) -> None:
                objects[:] = [mine] * len(objects)

            return gather

        places = (dist, distributed_c10d)
        self._everywhere("all_gather_object", places, gathered)
        self._everywhere("broadcast_object_list", places, lambda _: lambda *a, **k: None)
        for name in _FROM_OTHERS:
            self._everywhere(name, places, _refusing(name))

    def _meshes(self) -> None:
        """A mesh is made of real numbers."""
        places = (dist, device_mesh)
        self._everywhere("init_device_mesh", places, _for_real)
        for name, method in list(vars(device_mesh.DeviceMesh).items()):
            if isinstance(method, types.FunctionType) and name not in _UNTOUCHED:
                self._patches.wrap(device_mesh.DeviceMesh, name, _for_real)

    def _replicas(self) -> None:
        """DDP's C++ reducer reads memory: a Python one stands in for it."""
        wrap = self._patches.wrap
        wrap(dist, "Reducer", lambda _: lambda *a, **k: self._reducer(*a, **k))
        wrap(dist, "Logger", lambda _: lambda reducer: NoLogger(reducer))
        wrap(
            dist,
            "_register_comm_hook",
            lambda _: lambda one, state, hook: one.hook_with(state, hook),
        )
        wrap(dist, "_register_builtin_comm_hook", lambda _: lambda one, kind: one.builtin(kind))
        for name in ("_verify_param_shape_across_processes", "_sync_module_states"):
            wrap(replicas, name, lambda _: lambda *a, **k: None)

    def _reducer(self, *args: Any, **kwargs: Any) -> Reducer:
        self.reducers.append(Reducer(*args, **kwargs))
        return self.reducers[-1]

    def _loaders(self) -> None:
        """Batches are read for real; then only their shapes are kept."""

        def faked(original: Any) -> Any:
            def following(batches: Any) -> Any:
                with _disable_current_modes():
                    batch = original(batches)
                return tree_map_only(torch.Tensor, self._fake_mode.from_tensor, batch)

            return following

        self._patches.wrap(dataloader._BaseDataLoaderIter, "__next__", faked)
        self._patches.wrap(dataloader.DataLoader, "__iter__", _for_real)

    def _moves(self) -> None:
        """A model that is moved or cast keeps its parameters, whoever refers to them weakly."""

        def moving(original: Any) -> Any:
            def swap(one: Any, other: Any) -> None:
                if type(one.data) is FakeTensor and type(other.data) is FakeTensor:
                    _become(one, other)
                else:
                    original(one, other)

            return swap

        self._patches.wrap(torch.utils, "swap_tensors", moving)

    def _compilers(self) -> None:
        """Compiled code is run as written: its ops are those before fusion."""

        def plain(_: Any) -> Any:
            def compiled(model: Any = None, **__: Any) -> Any:
                self.notes.append("torch.compile was left out: ops are counted before fusion")
                return model if model is not None else lambda function: function

            return compiled

        self._patches.wrap(torch, "compile", plain)
        self._patches.wrap(torch.nn.Module, "compile", lambda _: lambda *a, **k: None)

    def _everywhere(
        self, name: str, modules: tuple[Any, ...], wrapped: Callable[[Any], Any]
    ) -> None:
        for module in modules:
            if name in vars(module):
                self._patches.wrap(module, name, wrapped)


def _become(one: Any, other: Any) -> None:
    """Give a tensor without data the shape, type and device of another; it stays the same object.

    torch swaps the two objects' contents, and cannot where somebody holds a weak reference or
    autograd has begun to watch the tensor; with real tensors it assigns to `data`, as here.
    """
    one.data = other.data
    one.fake_device = other.fake_device


def _for_real(original: Any) -> Any:
    """The function, run on real tensors."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return original(*args, **kwargs)

    return run


def _refusing(name: str) -> Callable[[Any], Any]:
    def refuse(*_: Any, **__: Any) -> None:
        raise ImagineError(
            f"{name} needs what another rank sends, and an imagined rank is alone. For a pipeline "
            "give PipelineStage its input_args and output_args; else record a real run"
        )

    return lambda _: refuse
