"""How a live job exchanges its gradients, as strategies ask for it; and what it then sent.

Strategies speak one after the other, and each takes its word back when it leaves. Once all have
spoken, `torch_exchange` installs what they said.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from paceline.errors import PacelineError
from paceline.runtime.codecs import Codec
from paceline.runtime.rounds import WeightRounds
from paceline.runtime.stages.dealt import Piped


class ExchangeError(PacelineError):
    """The gradients of this job cannot be exchanged as asked."""


READY, LAST_USE = "ready", "last use"


@dataclass(frozen=True)
class Bucketing:
    """Bytes at which a bucket of gradients is closed, and in which order they come into buckets."""

    size_bytes: int
    first_size_bytes: int
    order: str = READY


def arranged(ready: Sequence[int], names: Sequence[str], order: str) -> list[int]:
    """Parameters in that order. `ready` has those of one rank as their gradients become ready;
    `names` has all, as the model defines them."""
    if order == READY:
        return list(ready)
    if order == LAST_USE:
        return sorted(ready, reverse=True)
    place = {name: at for at, name in enumerate(order.split())}
    missing = [names[parameter] for parameter in ready if names[parameter] not in place]
    if missing or len(place) < len(order.split()):
        raise ExchangeError(
            f"the order {order!r} must be {READY!r}, {LAST_USE!r}, or name every parameter once, "
            f"with spaces between them; {missing[0] if missing else 'a name'} "
            f"{'is missing' if missing else 'stands there twice'}"
        )
    return sorted(ready, key=lambda parameter: place[names[parameter]])


Carrier = Callable[[Any], AbstractContextManager[Callable[[Any, Any], Any]]]
"""Of a process group: for as long as the context lasts, a function that starts the sum of one
payload of one of DDP's buckets over all its ranks, and returns what is then under way."""


Fits = Callable[[str, tuple[int, ...], int], bool]
"""Of a layer's name, its weight's shape and the number of workers: whether its weight gradient is
made of all workers' rows."""


@dataclass
class Weighing:
    """What this worker's gradient counts in the mean of the step under way."""

    now: float = 1.0


@dataclass(frozen=True)
class Passes:
    """Steps of the script that make one step."""

    count: int = 1
    rate: float = 1.0  # times the script's learning rate


@dataclass
class Exchange:
    """What the strategies of one plan ask for."""

    buckets: Bucketing | None = None
    codec: Codec | None = None
    rounds: WeightRounds | None = None  # gradients stay, and weights are exchanged in rounds
    elsewhere: bool = False  # a strategy exchanges the gradients itself
    passes: Passes = Passes()
    parts: int = 1  # of each bucket's payload
    by_priority: bool = False  # one exchange at a time, first what is needed first
    on_host: int = 0  # workers that reduce among themselves first; 0: all at once
    served: bool = False  # by parameter servers on the workers' own hosts
    carrier: Carrier | None = None  # another transport than the library's
    owned: bool = False  # each rank updates its own parameters and gathers the others
    sharded: bool = False  # FSDP2 gathers weights and reduces gradients in place of DDP
    piped: Piped | None = None  # workers run stages of the model for one another's batches
    pairs: int = 0  # workers that share pairs of linear layers; 0: none do
    factors: Fits | None = None  # layers whose gradients are made of all ranks' rows
    late: bool = False  # parameters are updated as they are needed
    early: bool = False  # parameters are updated as their gradients arrive
    weighing: Weighing | None = None  # workers count differently in the mean
    border_ratio: float = 0.0  # of activations, that pass from pipeline stage to stage; 0: all

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """DDP's own exchange does nothing."""
        if self.asks:
            raise ExchangeError(
                "gradients are exchanged in one way, and the plan asks for another beside it"
            )
        self.elsewhere = True
        try:
            yield
        finally:
            self.elsewhere = False

    @contextmanager
    def with_buckets(self, asked: Bucketing) -> Iterator[None]:
        if self.buckets is not None:
            raise ExchangeError(f"{asked} was asked for after {self.buckets}; give one of them")
        self.buckets = asked
        try:
            yield
        finally:
            self.buckets = None

    @contextmanager
    def with_codec(self, codec: Codec) -> Iterator[None]:
        if self.codec is not None:
            raise ExchangeError("gradients are sent by one codec, and two were asked for")
        self.codec = codec
        try:
            yield
        finally:
            self.codec = None

    @contextmanager
    def with_rounds(self, rounds: WeightRounds) -> Iterator[None]:
        if self.rounds is not None:
            raise ExchangeError("weights are exchanged in one way, and two were asked for")
        self.rounds = rounds
        try:
            yield
        finally:
            self.rounds = None

    @contextmanager
    def with_passes(self, passes: Passes) -> Iterator[None]:
        self.passes = passes
        try:
            yield
        finally:
            self.passes = Passes()

    @contextmanager
    def with_parts(self, parts: int) -> Iterator[None]:
        self.parts = parts
        try:
            yield
        finally:
            self.parts = 1

    @contextmanager
    def with_priority(self) -> Iterator[None]:
        self.by_priority = True
        try:
            yield
        finally:
            self.by_priority = False

    @contextmanager
    def with_levels(self, on_host: int) -> Iterator[None]:
        self.on_host = on_host
        try:
            yield
        finally:
            self.on_host = 0

    @contextmanager
    def with_servers(self) -> Iterator[None]:
        self.served = True
        try:
            yield
        finally:
            self.served = False

    @contextmanager
    def with_carrier(self, carrier: Carrier) -> Iterator[None]:
        if self.carrier is not None:
            raise ExchangeError("gradients travel over one transport, and two were asked for")
        self.carrier = carrier
        try:
            yield
        finally:
            self.carrier = None

    @contextmanager
    def with_owners(self) -> Iterator[None]:
        self.owned = True
        try:
            yield
        finally:
            self.owned = False

    @contextmanager
    def with_shards(self) -> Iterator[None]:
        self.sharded = True
        try:
            yield
        finally:
            self.sharded = False

    @contextmanager
    def with_stages(self, piped: Piped) -> Iterator[None]:
        self.piped = piped
        try:
            yield
        finally:
            self.piped = None

    @contextmanager
    def with_pairs(self, degree: int) -> Iterator[None]:
        self.pairs = degree
        try:
            yield
        finally:
            self.pairs = 0

    @contextmanager
    def with_factors(self, fits: Fits) -> Iterator[None]:
        self.factors = fits
        try:
            yield
        finally:
            self.factors = None

    @contextmanager
    def with_late_updates(self) -> Iterator[None]:
        self.late = True
        try:
            yield
        finally:
            self.late = False

    @contextmanager
    def with_early_updates(self) -> Iterator[None]:
        self.early = True
        try:
            yield
        finally:
            self.early = False

    @contextmanager
    def with_weights(self, weighing: Weighing) -> Iterator[None]:
        self.weighing = weighing
        try:
            yield
        finally:
            self.weighing = None

    @contextmanager
    def with_border(self, ratio: float) -> Iterator[None]:
        self.border_ratio = ratio
        try:
            yield
        finally:
            self.border_ratio = 0.0

    @property
    def asks(self) -> bool:
        """Whether anything is to change in how gradients are exchanged."""
        return self != Exchange(border_ratio=self.border_ratio)


@dataclass
class Sent:
    """What this process handed over for its gradients since the plan was entered."""

    steps: int = 0
    calls: int = 0
    payload_bytes: int = 0  # of the calls' payloads, as `size_bytes` of a graph's collectives
    wire_bytes: int = 0  # what a mean member of a ring then sends
    codec_ns: int = 0  # packing and unpacking, transfers left out
    _lock: Lock = field(default_factory=Lock, repr=False)

    def call(self, payload_bytes: int, wire_bytes: int, calls: int = 1) -> None:
        with self._lock:
            self.calls += calls
            self.payload_bytes += payload_bytes
            self.wire_bytes += wire_bytes

    def coded(self, took_ns: int) -> None:
        """From the training thread and from the library's."""
        with self._lock:
            self.codec_ns += took_ns

    def stepped(self) -> None:
        self.steps += 1

    def a_step(self) -> dict[str, float]:
        """Each count over the steps that reduced gradients."""
        names = ("calls", "payload_bytes", "wire_bytes", "codec_ns")
        return {name: getattr(self, name) / max(1, self.steps) for name in names}
