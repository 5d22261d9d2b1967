"""What the recorder adds beside a rank's Kineto trace: one JSON record a line, in order of time.

A run's folder holds, for each rank, `rank-<r>.trace.json` (Kineto, Chrome format) and
`rank-<r>.facts.jsonl` (this file), and for the whole job `job.json` (`job.py`). Records are
written as they become known, those of plain and recorded steps a few at a time, so what a killed
worker left is readable up to its last whole line.

What is too dear for every step is observed in one "detail" step before the recorded ones, with
its own trace `rank-<r>.detail.json` (shapes, memory events). Steady steps run the same ops in the
same order, but for a few where data are routed, so an op of a thread in the detail step describes
its partner of that thread in the others (`trace.alike`).

Every `*_ns` stamp is Unix time in nanoseconds, the trace's `baseTimeNanoseconds + 1000 * ts`.
Threads are the system's thread ids, the trace's `tid`. Every duration is in nanoseconds.
"""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TypeVar

import msgspec

from paceline.machine import Pulse, in_words

FORMAT = 1
R = TypeVar("R", bound="Record")


class Mode(str, Enum):
    """How a step is observed."""

    WARMUP = "warmup"
    PLAIN = "plain"  # steady, not instrumented
    DETAIL = "detail"
    SETTLE = "settle"  # instruments are on, but their first step pays for starting them
    RECORDED = "recorded"
    DRAIN = "drain"  # events that were open at the last border close; then the trace is written
    DONE = "done"


class Record(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="is"):
    """One line of a sidecar."""


class RecordedHost(Record, tag="host", frozen=True):
    """First line: which process this is and what it runs on."""

    rank: int
    world_size: int
    format: int = FORMAT
    local_rank: int = 0
    job: str = ""  # the same on all ranks of one job
    host: str = ""
    pid: int = 0
    main_thread: int = 0
    at_ns: int = 0
    backend: str = ""  # gloo, nccl, or "" without a process group
    device: str = "cpu"  # or the name of the GPU
    processor: str = ""  # its model; "" of earlier versions, which told the architecture alone
    cores: int = 0
    threads: int = 0  # torch.get_num_threads()
    memory_bytes: int = 0
    links: dict[str, int] = {}  # network interface -> bits per second; 0 unknown
    versions: dict[str, str] = {}
    command: list[str] = []
    boot: str = ""  # mark of the machine's kernel, which several hosts of a lab share

    @property
    def kernel(self) -> str:
        """A mark that ranks share whose hosts are one machine, as a lab's are."""
        return self.boot or self.host

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    @property
    def machine(self) -> str:
        """In words; "" where it was not told."""
        return in_words(self.device, self.cores) if self.on_gpu else self.host_machine

    @property
    def host_machine(self) -> str:
        """The same by its processor, whatever else it computes on."""
        return in_words(self.processor, self.cores) if self.processor else ""


class RecordedGroup(Record, tag="group", frozen=True):
    """A process group of which this rank is a member."""

    name: str  # torch's own name: "0", "1", ...
    ranks: list[int]  # global ranks, in group order
    backend: str = ""
    axis: str = ""  # mesh dimension or description


class Parameter(Record, tag="parameter", frozen=True):
    """A trained tensor; `index` is how other records name it."""

    index: int
    name: str
    module: str = ""  # path of the owning module: its layer
    elements: int = 0
    size_bytes: int = 0  # local bytes: the shard's under FSDP
    dtype: str = ""
    shards: int = 1  # parts that the data axis cuts the tensor into (FSDP)
    owners: int = 1  # ranks of which one alone updates the tensor (ZeRO)
    shape: tuple[int, ...] = ()  # of the whole tensor
    role: str = ""  # the value of a `graph.Role`


class Optimizer(Record, tag="optimizer", frozen=True):
    """What updates the parameters, with the settings of its first group."""

    kind: str  # its class
    settings: dict[str, bool | int | float | str | list[float] | None] = {}


class RecordedBucket(Record, tag="bucket", frozen=True):
    """Gradients that DDP reduces together, in the order in which buckets are launched."""

    index: int
    parameters: list[int]  # in bucket order
    size_bytes: int
    module: str = ""
    hook: str = ""  # DDP communication hook; "" for the plain all-reduce
    views: bool = False  # gradients lie in it, and have no room of their own


class Counts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the machine counted in one step. What is read more seldom than that, stolen, throttled
    and busy time, counts for all steps since the last that tells it."""

    run_ns: int | None = None  # of the training thread; None: this kernel keeps no count
    delay_ns: int | None = None  # it was ready and had no core
    switches: int = 0  # of this process's threads, against their will
    stolen_ns: int = 0  # by the host, over all cores
    throttled_ns: int = 0  # by the container's quota
    jumped_ns: int = 0  # by which the wall clock was set
    slept_ns: int = 0  # the machine was suspended
    busy_ns: int = 0  # what all programs of the machine ran, over all cores; 0 of earlier versions


class Step(Record, tag="step", frozen=True):
    """One optimizer step, from border to border. A border is the end of `optimizer.step()`."""

    index: int  # counts from 0 at the job's first optimizer step
    begin_ns: int
    end_ns: int
    mode: Mode
    cpu_ns: int = 0  # this process's CPU time, all threads
    faults: int = 0  # its page faults that needed no disk
    own_ns: int = 0  # time in the step that the recorder itself used, inside `own` intervals
    micro_batches: int = 1  # forward passes of the step
    update_begin_ns: int = 0  # first optimizer.step() entered; 0 if not seen
    counts: Counts | None = None  # None in recordings of versions that kept none

    @property
    def steady(self) -> bool:
        """Its length can be trusted: no clock was set in it, and the machine was awake."""
        return self.counts is None or not (self.counts.jumped_ns or self.counts.slept_ns)


class CoreTime(Record, tag="core_time", frozen=True):
    """What a thread got between two moments: a phase of the training thread, in recorded steps, or
    the whole step where it is short; a whole step of a communication thread. Written where one kind
    of steps ends."""

    thread: int
    begin_ns: int
    end_ns: int
    run_ns: int
    delay_ns: int  # ready to run, without a core
    turns: int = 0  # on a core


class Pulsed(Record, tag="pulse", frozen=True):
    """The machine's pulse, taken between two steps by one rank of each host."""

    pulse: Pulse


class Own(Record, tag="own", frozen=True):
    """An interval in which the recorder itself worked on `thread`: to be cut out of the step."""

    thread: int
    begin_ns: int
    end_ns: int


class Collective(Record, tag="collective", frozen=True):
    """One communication as this rank issued it.

    `enqueue_ns` lies inside the trace's `c10d::` op on `thread`. `start_ns` and `end_ns` are 0
    where the trace shows them itself: `gloo:*` on a run-loop thread, or an NCCL kernel.
    """

    order: int  # this rank's issue order over all groups
    group: str
    sequence: int  # position in the group, the same on all members; p2p: per peer and direction
    op: str  # as called: all_reduce, reduce_scatter, all_gather, broadcast, send, recv, ...
    executed: str = ""  # as run: gloo runs reduce_scatter as all_reduce
    size_bytes: int = 0  # bytes of this rank's input (recv: of its output)
    output_bytes: int = 0
    dtype: str = ""
    peer: int = -1  # global rank of the other side of a send or recv
    tag: int = 0
    bucket: int = -1
    thread: int = 0
    enqueue_ns: int = 0
    enqueue_end_ns: int = 0  # 0 unknown
    start_ns: int = 0
    end_ns: int = 0


class Wait(Record, tag="wait", frozen=True):
    """The host blocked until communication ended."""

    kind: str  # "work" | "future" | "ddp_final" | "wait_tensor"
    thread: int
    begin_ns: int
    end_ns: int
    order: int = -1  # `Collective.order` waited for; -1: all that `group` or the step has in flight


class Backward(Record, tag="backward", frozen=True):
    """One call of `torch.autograd.backward`. Under DDP its last part is an unlabelled wait for all
    buckets: from the last op's end to the first op after the last bucket's arrival, or the end."""

    thread: int
    begin_ns: int
    end_ns: int
    synced: bool = False  # DDP reduced gradients in it (not under `no_sync`)


class Layer(Record, tag="layer", frozen=True):
    """Forward of one module, in the detail step."""

    module: str  # path: "layers.3.linear1"; "" the model itself
    kind: str  # class name
    thread: int
    begin_ns: int
    end_ns: int
    inputs: dict[int, int] = {}  # storages of the tensors given: address -> bytes
    outputs: dict[int, int] = {}  # the same of those returned


class Saved(Record, tag="saved", frozen=True):
    """A storage that autograd kept for the backward pass, in the detail step; weights and buffers
    left out."""

    address: int
    size_bytes: int
    dtype: str
    saved_ns: list[int]  # each time that an op saved it, in order
    until_ns: int = 0  # last let go; 0: not within the step


class Gradient(Record, tag="gradient", frozen=True):
    """A parameter's gradient became ready, in the detail step; the last one in a step counts."""

    parameter: int
    step: int
    ready_ns: int
    thread: int = 0
    address: int = 0  # of its storage
    freed_ns: int = 0  # when the gradient from before the step was given up; 0: not in the step


class Data(Record, tag="data", frozen=True):
    """The training loop asked its data loader for a batch."""

    thread: int
    begin_ns: int
    end_ns: int
    workers: int = 0  # of the loader, which prepared the batch beside the thread; 0: the thread did
    prefetch: int = 0  # batches that each of them prepares ahead


class Memory(Record, tag="memory", frozen=True):
    """Bytes on a device by category: what a step begins with, or each category's own peak."""

    step: int
    device: str = "cpu"
    peak: bool = True
    weights: int = 0  # and the model's buffers
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    temporary: int = 0
    communication: int = 0  # DDP's buckets, where gradients are no views of them


class Cost(Record, tag="cost", frozen=True):
    """What recording costs, measured inside the job; `build` takes it out of the recorded steps.

    An op event costs `op_ns` on its thread, half before its recorded start and after its end; a
    call of a device's driver costs `call_ns` besides, while it runs.

    It also saves something. A job that gives memory back to the system and asks for it anew at
    every step pays for fresh pages each time; the profiler's events lie on top of the heap, so that
    it cannot shrink, and the pages stay. Where the events leave less room for what the job asks
    for, there are more. `fault_ns` is what a fresh page costs this job.
    """

    op_ns: float  # one op event of the profiler
    call_ns: float = 0.0  # one call of a device's driver
    fault_ns: float = 0.0  # one page fault of the job; 0 of earlier versions
    refault_ns: int = 0  # of those: page faults of a plain step less those of a recorded one
    plain_step_ns: int = 0  # median un-instrumented steady step of this job
    recorded_step_ns: int = 0  # median recorded step


class End(Record, tag="end", frozen=True):
    """Last line of a whole sidecar. A sidecar without it belongs to a worker that was killed."""

    reason: str  # "complete" | "short" (job ended before enough steps) | "exception" | "signal ..."
    at_ns: int
    steps: int  # optimizer steps seen
    recorded: int  # of them recorded
    detail: str = ""
    trace: str = ""  # file name of the Kineto trace; "" where none could be written


AnyRecord = (
    RecordedHost
    | RecordedGroup
    | Parameter
    | Optimizer
    | RecordedBucket
    | Step
    | CoreTime
    | Pulsed
    | Own
    | Collective
    | Wait
    | Backward
    | Layer
    | Saved
    | Gradient
    | Data
    | Memory
    | Cost
    | End
)


class Sidecar(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's records, whole or as far as they were written."""

    records: list[AnyRecord]
    truncated: bool  # the last line was cut off

    def of(self, kind: type[R]) -> list[R]:
        return [record for record in self.records if isinstance(record, kind)]


def trace_name(rank: int) -> str:
    return f"rank-{rank}.trace.json"


def detail_name(rank: int) -> str:
    return f"rank-{rank}.detail.json"


def facts_name(rank: int) -> str:
    return f"rank-{rank}.facts.jsonl"


def encode(record: Record) -> bytes:
    """One line, newline included."""
    return _ENCODER.encode(record) + b"\n"


def read(path: Path) -> Sidecar:
    """A rank's sidecar; what a dying worker cut short is left out and marked."""
    lines = path.read_bytes().split(b"\n")
    whole, rest = lines[:-1], lines[-1]
    return Sidecar(records=list(_decoded(whole)), truncated=bool(rest))


def _decoded(lines: list[bytes]) -> Iterator[AnyRecord]:
    for line in lines:
        yield _DECODER.decode(line)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(AnyRecord)
