"""The transport's rate over two paths of half a link each, its packets sprayed, beside its rate
over one of them."""

from dataclasses import dataclass, replace

from paceline.lab.incast import Setting, incast, summary
from paceline.wire.contenders import TEN_PERCENT

SIZE_BYTES = 2_000_000


@dataclass(frozen=True)
class Sprayed:
    """Bits of values per second, of the median round of one sender."""

    one_path: float
    two_paths: float

    @property
    def gain(self) -> float:
        return self.two_paths / self.one_path


def sprayed(setting: Setting, rounds: int) -> Sprayed:
    """Both in turn, in labs of their own. The paths' queues are the setting's."""
    return Sprayed(_rate(setting, 1, rounds), _rate(setting, 2, rounds))


def _rate(setting: Setting, paths: int, rounds: int) -> float:
    """Only packets with marks are sprayed, so it is the contender that has them."""
    one = replace(
        setting, senders=1, size_bytes=SIZE_BYTES, bits_per_s=setting.bits_per_s * paths / 2,
        paths=paths,
    )  # fmt: skip
    (timed,) = incast(one, [TEN_PERCENT], rounds)
    return 8e3 * SIZE_BYTES / summary(one, timed).p50_ms
