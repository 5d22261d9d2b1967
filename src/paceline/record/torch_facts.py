"""Facts about a live job that no trace holds: host, links, groups, parameters, DDP's buckets."""

import gc
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from paceline.graph import Role
from paceline.machine import boot_here, processor
from paceline.record.sidecar import (
    Optimizer,
    Parameter,
    RecordedBucket,
    RecordedGroup,
    RecordedHost,
)


def host_facts(command: Iterable[str] = ()) -> RecordedHost:
    """Which process this is and what it runs on."""
    joined = dist.is_available() and dist.is_initialized()
    return RecordedHost(
        rank=dist.get_rank() if joined else 0,
        world_size=dist.get_world_size() if joined else 1,
        local_rank=int(os.environ.get("LOCAL_RANK", "0")),
        job=_job_name(),
        host=socket.gethostname(),
        pid=os.getpid(),
        main_thread=threading.main_thread().native_id or 0,
        at_ns=time.time_ns(),
        backend=dist.get_backend() if joined else "",
        device=torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        processor=processor(),
        cores=os.cpu_count() or 0,
        threads=torch.get_num_threads(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        links=link_speeds(),
        versions={"python": platform.python_version(), "torch": str(torch.__version__)},
        command=list(command) or sys.orig_argv,
        boot=boot_here(),
    )


def link_speeds(folder: Path = Path("/sys/class/net")) -> dict[str, int]:
    """Bits per second of each network interface; 0 where the driver does not say."""
    return {path.name: _speed(path / "speed") for path in sorted(folder.glob("*"))}


def group_facts() -> Iterator[RecordedGroup]:
    """The process groups of which this rank is a member."""
    if not (dist.is_available() and dist.is_initialized()):
        return
    world = dist.distributed_c10d._world
    for group, name in world.pg_names.items():
        ranks = sorted(world.pg_group_ranks[group], key=world.pg_group_ranks[group].__getitem__)
        yield RecordedGroup(
            name=name, ranks=ranks, backend=dist.get_backend(group), axis=group.group_desc
        )


@dataclass(frozen=True)
class TrainedModel:
    """What an optimizer trains: its tensors, the modules that own them, and what to write of it."""

    optimizer: Any = None
    tensors: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=list)  # of its modules
    modules: list[Any] = field(default_factory=list)
    paths: dict[int, str] = field(default_factory=dict)  # id of a module -> its path
    replicas: list[Any] = field(default_factory=list)  # DistributedDataParallel modules
    parameters: list[Parameter] = field(default_factory=list)
    buckets: list[RecordedBucket] = field(default_factory=list)
    beside: "tuple[TrainedModel, ...]" = ()  # what other optimizers train (of GANs)


def model_facts(optimizer: Any) -> TrainedModel:
    """Find the model through the optimizer: the script hands nothing over."""
    tensors = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    roots = root_modules(tensors)
    named = [(path, module) for root in roots for path, module in root.named_modules()]
    names = _names_of(named)
    replicas = [
        (path, m)
        for path, m in named
        if isinstance(m, DistributedDataParallel) and m.reducer is not None
    ]  # one without a reducer is a shell, whose model FSDP2 trains under a plan
    index_of = {id(tensor): index for index, tensor in enumerate(tensors)}
    split = _split(optimizer, [module for _, module in named])
    return TrainedModel(
        optimizer=optimizer,
        tensors=tensors,
        buffers=[buffer for root in roots for buffer in root.buffers()],
        modules=[module for _, module in named],
        paths={id(module): clean_path(path) for path, module in named},
        replicas=[module for _, module in replicas],
        parameters=[
            _parameter(index, tensor, names.get(id(tensor), _Named(f"parameter {index}")), split)
            for index, tensor in enumerate(tensors)
        ],
        buckets=[bucket for path, m in replicas for bucket in _buckets(m, path, index_of)],
    )


def optimizer_facts(optimizer: Any) -> Optimizer:
    """Its class, and those settings of its first group that are plain values."""
    plain = {name: value for name, value in optimizer.param_groups[0].items() if _is_plain(value)}
    settings = {n: list(v) if isinstance(v, tuple) else v for n, v in plain.items()}
    return Optimizer(type(optimizer).__name__, settings)


def _is_plain(value: Any) -> bool:
    parts = value if isinstance(value, tuple) else (value,)
    return all(part is None or isinstance(part, (bool, int, float, str)) for part in parts)


def root_modules(tensors: list[Any]) -> list[torch.nn.Module]:
    """The outermost live modules that own any of the tensors."""
    wanted = {id(tensor) for tensor in tensors}
    modules = [found for found in gc.get_objects() if issubclass(type(found), torch.nn.Module)]
    owners = [m for m in modules if any(id(p) in wanted for p in m.parameters())]
    inner = {id(child) for m in owners for child in m.children()}
    return [m for m in owners if id(m) not in inner]


def clean_path(path: str) -> str:
    """A module's path as its author wrote it, without what wrappers put in front."""
    return ".".join(part for part in path.split(".") if part not in _WRAPPERS)


@dataclass(frozen=True)
class _Named:
    """What the modules tell of a parameter."""

    name: str
    layer: str = ""
    role: Role = Role.OTHER


def _names_of(modules: Iterable[tuple[str, torch.nn.Module]]) -> dict[int, _Named]:
    """By id of the tensor. One that several layers share is nobody's weight alone."""
    found: dict[int, _Named] = {}
    for path, module in modules:
        layer = clean_path(path)
        for name, tensor in module.named_parameters(recurse=False):
            role = _role(module) if name == "weight" and id(tensor) not in found else Role.OTHER
            found[id(tensor)] = _Named(f"{layer}.{name}" if layer else name, layer, role)
    return found


def _role(module: torch.nn.Module) -> Role:
    """Of a module's weight."""
    if type(module) is torch.nn.Linear:
        return Role.LINEAR_WEIGHT
    plain = type(module) is torch.nn.Conv2d and module.groups == 1
    return Role.CONVOLUTION_WEIGHT if plain else Role.OTHER


def _parameter(index: int, tensor: Any, named: _Named, split: "Split") -> Parameter:
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return Parameter(
        index=index,
        name=named.name,
        module=named.layer,
        elements=local.numel(),
        size_bytes=local.numel() * local.element_size(),
        dtype=str(tensor.dtype).removeprefix("torch."),
        shards=_shards(tensor) if split.weights else 1,
        owners=split.owners,
        shape=tuple(tensor.shape),
        role=named.role.value,
    )


@dataclass(frozen=True)
class Split:
    """How the data axis divides the work of the update."""

    weights: bool = False  # FSDP2: every tensor is cut
    owners: int = 1  # ZeRO: ranks of which one alone updates a tensor


def _split(optimizer: Any, modules: Iterable[Any]) -> Split:
    """Found by the classes of the job's own objects; what it has not imported it does not use."""
    cut = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    zero = getattr(sys.modules.get("torch.distributed.optim"), "ZeroRedundancyOptimizer", None)
    return Split(
        weights=cut is not None and any(isinstance(module, cut) for module in modules),
        owners=optimizer.world_size if zero is not None and isinstance(optimizer, zero) else 1,
    )


def _shards(tensor: Any) -> int:
    """Parts into which FSDP2 cut a tensor: its mesh's first dimension is the data axis."""
    placements: Any = getattr(tensor, "placements", None)
    cut = bool(placements) and placements[0].is_shard()
    return int(tensor.device_mesh.size(0)) if cut else 1


def _buckets(module: Any, path: str, index_of: dict[int, int]) -> list[RecordedBucket]:
    hook = module._comm_hooks[0][0] if module._comm_hooks else None
    try:
        found = module.reducer._get_zeros_like_grad_buckets()
    except RuntimeError:  # sparse gradients have no bucket before a first backward pass
        found = []
    return [
        RecordedBucket(
            index=bucket.index(),
            parameters=[index_of.get(id(tensor), -1) for tensor in bucket.parameters()],
            size_bytes=bucket.buffer().numel() * bucket.buffer().element_size(),
            module=clean_path(path),
            hook=getattr(hook, "__qualname__", "") if hook else "",
            views=bool(module.gradient_as_bucket_view),
        )
        for bucket in found
    ]


def _job_name() -> str:
    """The same text on every rank of one job, another for the next job."""
    parts = ("PACELINE_JOB", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID")
    return "/".join(os.environ[part] for part in parts if os.environ.get(part))


def _speed(path: Path) -> int:
    try:
        return max(0, int(path.read_text())) * 1_000_000
    except (OSError, ValueError):  # loopback and virtual links have no speed to read
        return 0


_WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
