"""The words of the graph: what an op is, what it is for, and why it must wait.

Every enum is stored as one byte a row. New members go at the end: the numbers are the file format.
"""

from enum import Enum, IntEnum
from typing import Final

UNPRICED: Final = -1
"""`dur_ns` of an op whose duration `cost/` has yet to find; replay refuses it."""

NONE: Final = -1
"""The absent index: no group, no instance, no layer, no tensor."""


class OpKind(IntEnum):
    """What an op does to its lane."""

    COMPUTE = 0  # arithmetic: a kernel, or a CPU op that computes
    HOST = 1  # a host call that computes nothing: launch, enqueue, Python between ops
    COLLECTIVE = 2  # one member's part of a collective; members are joined by instance
    SEND = 3  # one side of a point-to-point message, joined to its RECV by instance
    RECV = 4
    TRANSFER = 5  # bytes over one link, one-sided: a ring step, a parameter-server push
    COPY = 6  # memory to memory on one host: host to device, device to host
    WAIT = 7  # the host blocks until other work has ended
    DATA = 8  # data loading and preparation
    MARKER = 9  # takes no time: step borders, joins
    CORE_WAIT = 10  # the thread is ready and has no core: others run on it


COMMUNICATION: Final = (OpKind.COLLECTIVE, OpKind.SEND, OpKind.RECV, OpKind.TRANSFER)
"""Kinds that move bytes between ranks, and whose time a cluster decides."""

WORK: Final = (OpKind.COMPUTE, OpKind.HOST, OpKind.COPY, OpKind.DATA)
"""Kinds that keep their lane busy with the rank's own work."""


class Phase(IntEnum):
    """What an op is for within a training step."""

    NONE = 0
    FORWARD = 1
    BACKWARD = 2
    UPDATE = 3
    DATA = 4
    COMMUNICATION = 5


class DepKind(IntEnum):
    """Why one op must wait for another."""

    DATA = 0  # the result of one is read by the other
    ORDER = 1  # program order on one thread
    LAUNCH = 2  # a host call and the device work it enqueued
    EVENT = 3  # event record and the wait for it
    AUTOGRAD = 4  # the autograd engine's hand-over between threads
    GRADIENT = 5  # gradient -> bucket -> collective -> optimizer
    MESSAGE = 6  # send -> receive
    WAIT = 7  # asynchronous work and the host's wait for it
    STEP = 8  # one training step and the next
    CONTROL = 9  # added on purpose by an edit


class LaneKind(IntEnum):
    """What a lane is a queue of."""

    THREAD = 0  # a CPU thread
    STREAM = 1  # a GPU stream
    LINK_OUT = 2  # the sending direction of a network interface
    LINK_IN = 3
    COPY_ENGINE = 4
    COMM_THREAD = 5  # a communication library's own thread (gloo's run loop)


class Discipline(IntEnum):
    """How a lane picks its next op."""

    RECORDED = 0  # strictly in op-id order: a hardware queue, a recorded thread
    PRIORITY = 1  # among ready ops, by (priority, ready time, op id); lower priority value first


class Collective(IntEnum):
    """Which communication a COLLECTIVE, SEND, RECV or TRANSFER op belongs to."""

    NONE = 0
    ALL_REDUCE = 1
    REDUCE_SCATTER = 2
    ALL_GATHER = 3
    BROADCAST = 4
    REDUCE = 5
    ALL_TO_ALL = 6
    GATHER = 7
    SCATTER = 8
    BARRIER = 9
    POINT_TO_POINT = 10
    PUSH = 11  # worker to parameter server
    PULL = 12


class DType(IntEnum):
    """Element type of what is moved or computed."""

    NONE = 0
    FLOAT64 = 1
    FLOAT32 = 2
    FLOAT16 = 3
    BFLOAT16 = 4
    FLOAT8 = 5
    INT64 = 6
    INT32 = 7
    INT16 = 8
    INT8 = 9
    UINT8 = 10
    BOOL = 11
    COMPLEX64 = 12
    FLOAT4 = 13
    TFLOAT32 = 14  # float32 in memory, of which products use the first 10 bits


class Axis(Enum):
    """Along which axis of a job a process group shares work; the value is the file format."""

    NONE = ""  # not known
    DATA = "data"  # replicas of one part of the model, which share gradients
    TENSOR = "tensor"
    SEQUENCE = "sequence"
    EXPERT = "expert"
    PIPELINE = "pipeline"
    EMBEDDING = "embedding"  # first and last stage, which share its weights
    WORLD = "world"  # all ranks, where that is more than one axis


class Role(Enum):
    """What a parameter is in its layer; the value is the file format."""

    OTHER = ""
    LINEAR_WEIGHT = "linear weight"  # output features x input features of a plain linear layer
    CONVOLUTION_WEIGHT = "convolution weight"  # outputs x inputs x window, of images, in one group


class Basis(IntEnum):
    """Where a duration comes from. New members go at the end: the numbers are in files."""

    RECORDED = 0  # seen on this very op
    MEASURED = 1  # read from a table measured on this kind of device or network
    FITTED = 2  # a model whose coefficients were fitted to measurements
    SCALED = 3  # seen on this op on another device, carried over by what both achieve
    WALL = 4  # seen on this op by the wall clock alone: waiting for a core may be in it
    DATASHEET = 5  # a model with the maker's figures and typical efficiency
    ARITHMETIC = 6  # seen on this op with other dimensions, carried over by its multiplications
    FORECAST = 7  # the maker's figures, with what tables of other devices taught of such operators


class MemoryCategory(IntEnum):
    """Whose bytes they are."""

    OTHER = 0
    WEIGHTS = 1
    GRADIENTS = 2
    OPTIMIZER = 3
    ACTIVATIONS = 4
    TEMPORARY = 5
    COMMUNICATION = 6  # buffers that gradients are gathered in


class DeviceKind(IntEnum):
    """What kind of processor a device is."""

    CPU = 0
    GPU = 1
    NIC = 2


class Vendor(Enum):
    """Whose libraries a GPU runs: NVIDIA's (cuBLAS, cuDNN, NCCL), AMD's, or an accelerator its own
    maker's, of which nothing was learned."""

    NVIDIA = "nvidia"
    AMD = "amd"
    OTHER = "other"
