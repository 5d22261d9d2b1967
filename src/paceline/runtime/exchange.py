"""How a live job exchanges its gradients, as strategies ask for it; and what it then sent.

Strategies speak one after the other, and each takes its word back when it leaves. Once all have
spoken, `torch_exchange` installs what they said.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from paceline.errors import PacelineError
from paceline.runtime.codecs import Codec


class ExchangeError(PacelineError):
    """The gradients of this job cannot be exchanged as asked."""


@dataclass(frozen=True)
class BucketSizes:
    """Bytes at which a bucket of gradients is closed."""

    size_bytes: int
    first_size_bytes: int


@dataclass
class Exchange:
    """What the strategies of one plan ask for."""

    buckets: BucketSizes | None = None
    codec: Codec | None = None
    elsewhere: bool = False  # a strategy exchanges the gradients itself

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """DDP's own exchange does nothing."""
        if self.elsewhere or self.buckets or self.codec:
            raise ExchangeError(
                "gradients are exchanged in one way, and the plan asks for another beside it"
            )
        self.elsewhere = True
        try:
            yield
        finally:
            self.elsewhere = False

    @contextmanager
    def with_buckets(self, sizes: BucketSizes) -> Iterator[None]:
        if self.buckets is not None:
            raise ExchangeError(f"{sizes} were asked for after {self.buckets}; give one of them")
        self.buckets = sizes
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


@dataclass
class Sent:
    """What this process handed over for its gradients since the plan was entered."""

    steps: int = 0
    calls: int = 0
    payload_bytes: int = 0  # of the calls' payloads, as `size_bytes` of a graph's collectives
    wire_bytes: int = 0  # what a mean member of a ring then sends
    codec_ns: int = 0  # packing and unpacking, transfers left out
    _lock: Lock = field(default_factory=Lock, repr=False)

    def call(self, payload_bytes: int, wire_bytes: int) -> None:
        with self._lock:
            self.calls += 1
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
