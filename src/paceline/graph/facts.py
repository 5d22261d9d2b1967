"""`Facts`: what a change must know of a job beyond its ops, typed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.graph.kinds import Axis, Role


@dataclass(frozen=True)
class Parameter:
    """A trained tensor, by the name that `Graph.ops.tensor` gives to the op that readies it."""

    name: str
    size_bytes: int  # of its whole gradient
    shape: tuple[int, ...] = ()  # unknown where empty
    layer: str = ""  # the module that owns it, as `Graph.ops.layer` names it
    role: Role = Role.OTHER


@dataclass(frozen=True)
class Facts:
    """What is known of the job; zero and empty where it is not."""

    world_size: int = 0  # processes of the whole job, of which the graph may hold a part
    parameters: tuple[Parameter, ...] = ()
    buckets: tuple[tuple[str, ...], ...] = ()  # parameters reduced together, in launch order
    update_shards: int = 1  # into how many parts the data axis cuts the update (ZeRO, FSDP)
    plain_step_ns: int = 0  # a step without instruments, the median
    plain_run_ns: int = 0  # how long the training thread ran in it, waits of all kinds left out
    cores: int = 0  # processor cores of the host that was recorded
    siblings: Mapping[Axis, tuple[int, ...]] = field(default_factory=dict)
    """By axis: shifts of a group's ranks to those of groups that communicate at the same time."""

    def gradient_bytes(self) -> dict[str, int]:
        return {parameter.name: parameter.size_bytes for parameter in self.parameters}
