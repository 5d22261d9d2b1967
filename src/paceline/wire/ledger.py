"""`Ledger`: what was lost of each step, from which rank, in which phase."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from paceline.wire.orders import Arrived, TransferPhase


@dataclass(frozen=True)
class LedgerLine:
    """What came from one rank in one phase of one step."""

    step: int
    rank: int
    phase: TransferPhase
    size_bytes: int
    missing_bytes: int

    @property
    def share(self) -> float:
        return self.missing_bytes / self.size_bytes if self.size_bytes else 0.0


@dataclass
class Ledger:
    """Kept for the newest `keep` steps; the sums over all steps stay."""

    keep: int = 1000
    totals: dict[TransferPhase, tuple[int, int]] = field(default_factory=dict)
    _steps: dict[int, dict[tuple[int, TransferPhase], tuple[int, int]]] = field(
        default_factory=dict
    )

    def add(self, came: Iterable[Arrived]) -> None:
        for one in came:
            step, rank, phase = one.transfer.step, one.transfer.peer, one.transfer.phase
            lines = self._steps.setdefault(step, defaultdict(lambda: (0, 0)))
            size, missing = lines[rank, phase]
            lines[rank, phase] = (size + one.size_bytes, missing + one.missing_bytes)
            size, missing = self.totals.get(phase, (0, 0))
            self.totals[phase] = (size + one.size_bytes, missing + one.missing_bytes)
        while len(self._steps) > self.keep:
            del self._steps[next(iter(self._steps))]

    def lines(self) -> Iterator[LedgerLine]:
        for step, ranks in self._steps.items():
            for (rank, phase), (size, missing) in ranks.items():
                yield LedgerLine(step, rank, phase, size, missing)

    def lost_share(self, phase: TransferPhase) -> float:
        """Of all bytes of a phase since the start."""
        size, missing = self.totals.get(phase, (0, 0))
        return missing / size if size else 0.0
