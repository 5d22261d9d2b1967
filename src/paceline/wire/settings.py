"""How an endpoint sends and receives; the defaults are those of docs/wire.md."""

from dataclasses import dataclass, field
from typing import Any

from paceline.engine import native
from paceline.wire.errors import WireError
from paceline.wire.importance import CONTROL_TOS
from paceline.wire.switch.ports import FRAME_BYTES

OVERHEAD_BYTES = FRAME_BYTES + 40
"""What a link's rate pays for beside a packet's values: frames, and our header."""

_FULL_S = 1e-3


@dataclass(frozen=True)
class Patience:
    """How long who waits for what. A receiver does without values only where they are within the
    budget, were overtaken by later packets or asked for in vain, and after silence: of `settle_ms`
    where its sender is done, else of `gap_ms`. Time without a core is no silence."""

    settle_ms: float = 1.0
    gap_ms: float = 20.0
    retry_ms: float = 4.0
    timeout_s: float = 60.0  # without a word from a peer: it is lost


@dataclass(frozen=True)
class Tuning:
    """One end of the transport. `paced` and `reacts` can be switched off to see their part."""

    link_bits_per_s: float = 1e9  # of this host, which all that send to it share
    headroom: float = 1.25  # granted above the link, so that who was late catches up
    window_bytes: int = 48_000  # that may be under way to this host; below its port's queue
    packet_bytes: int = 1432  # of values: with all headers an Ethernet frame of 1,514
    segments: int = 1  # packets handed to the kernel as one; above 1 no queue can drop them singly
    paced: bool = True
    reacts: bool = True  # to marks and losses
    buffer_bytes: int = 4 << 20  # of sockets
    patience: Patience = field(default_factory=Patience)

    @classmethod
    def of_link(cls, bits_per_s: float) -> "Tuning":
        """For a link whose port's queue holds what it carries in a millisecond. Two workers at
        1 Gbit/s took 193 ms for 14.4 MB with the window of a shorter queue, 131 so (TCP 121)."""
        window = max(cls.window_bytes, round(bits_per_s / 8 * _FULL_S))
        return cls(link_bits_per_s=bits_per_s, window_bytes=window)

    def __post_init__(self) -> None:
        if not 16 <= self.packet_bytes <= 60_000 or self.packet_bytes % 8:
            raise WireError(
                f"packets of {self.packet_bytes} bytes cannot be sent; give a multiple of 8 from "
                "16 to 60,000 (1432 fills an Ethernet frame)"
            )
        if self.link_bits_per_s < 1e4:
            raise WireError(f"a link of {self.link_bits_per_s:g} bit/s is too slow; give 1e4 up")
        if self.segments < 1 or self.window_bytes < 1 or self.buffer_bytes < 1:
            raise WireError("segments, window_bytes and buffer_bytes must be at least 1")

    @property
    def packet_values(self) -> int:
        """Single-precision values in a packet."""
        return self.packet_bytes // 4

    def packets(self, size_bytes: int) -> int:
        return -(-size_bytes // self.packet_bytes)

    def frame_bytes(self, size_bytes: int) -> int:
        """What so many bytes of values take of a link."""
        return size_bytes + self.packets(size_bytes) * OVERHEAD_BYTES

    def native(self) -> Any:
        """The same for the native core."""
        made = core().WireSettings()
        for name in (
            "link_bits_per_s", "headroom", "window_bytes", "packet_bytes", "segments", "paced",
            "reacts", "buffer_bytes",
        ):  # fmt: skip
            setattr(made, name, getattr(self, name))
        made.control_tos = CONTROL_TOS
        made.burst = max(4, self.segments)
        for name in ("settle", "gap", "retry"):
            setattr(made, f"{name}_ns", round(1e6 * getattr(self.patience, f"{name}_ms")))
        made.timeout_ns = round(1e9 * self.patience.timeout_s)
        return made


def core() -> Any:
    """The native core, without which there is no transport."""
    found = native()
    if found is None:
        raise WireError(
            "the transport is compiled code, and this installation has none; install Paceline "
            "where a C++ compiler is (`paceline doctor` tells)"
        )
    return found
