"""What a CPU quota makes of work: a budget for each period, not a slower processor.

Work runs at full speed until the period's budget is spent, and then stands until the next period
begins with a whole budget. What a period leaves is lost, so waiting helps only until its end. Work
without any waiting takes work / cpus, work that never spends a budget no more than its own time.
Work behind a rest, of its own or for want of a budget, may take longer for that: others have had
the caches.

Wrong where a worker's threads run side by side (each spends at its own pace; here they follow one
another), and by what the kernel hands out in slices: a core keeps what its slice has left, and a
thread that another core's slice left without any stands until the period ends.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from paceline.errors import ReplayError


@dataclass(frozen=True)
class Quota:
    """So much of one core, dealt out period by period; and what a rest costs the work behind it,
    which takes twice as long until that is paid."""

    cpus: float
    period_ns: int
    cold_ns: int = 0
    rest_ns: int = 2_000_000  # a shorter wait is no rest

    def __post_init__(self) -> None:
        if not (0 < self.cpus <= 1 and self.period_ns > 0 and self.budget_ns > 0):
            raise ReplayError(
                f"a quota of {self.cpus:g} cores in periods of {self.period_ns} ns: give a share "
                "of one core, above 0 and up to 1, of which a period has a nanosecond or more"
            )

    @property
    def budget_ns(self) -> int:
        """Of each period."""
        return round(self.cpus * self.period_ns)

    @property
    def rest_cost_ns(self) -> int:
        """No more than half a budget, of which work would else never see anything."""
        return min(self.cold_ns, self.budget_ns // 2)


@dataclass(eq=False)
class Budget:
    """One worker's, as its work spends it: whole at 0, and again at `border_ns` and every period
    before and behind that."""

    quota: Quota
    border_ns: int = 0

    def __post_init__(self) -> None:
        self._next = self.border_ns % self.quota.period_ns
        self._left, self._ended, self._unpaid = self.quota.budget_ns, 0, 0

    def worked(self, start_ns: int, work_ns: int) -> int:
        """When work ends that begins then, not before what was asked last has ended."""
        now, work_ns = start_ns, work_ns + self._cold_ns(work_ns, start_ns - self._ended)
        self._come_to(now)
        while True:
            step_ns = min(work_ns, self._left, self._next - now)
            now, work_ns, self._left = now + step_ns, work_ns - step_ns, self._left - step_ns
            if not work_ns:
                break
            if (stood_ns := self._next - now) >= self.quota.rest_ns:
                work_ns += self._cold_ns(work_ns, stood_ns)
            now = self._next
            self._come_to(now)
        self._ended = now
        return now

    def _cold_ns(self, work_ns: int, rested_ns: int) -> int:
        """What work pays for this rest, or still for the last one."""
        if rested_ns >= self.quota.rest_ns:
            self._unpaid = self.quota.rest_cost_ns
        paid = min(work_ns, self._unpaid)
        self._unpaid -= paid
        return paid

    def _come_to(self, now_ns: int) -> None:
        """A border that was passed brings a whole budget."""
        if now_ns >= self._next:
            passed = (now_ns - self._next) // self.quota.period_ns
            self._next += (passed + 1) * self.quota.period_ns
            self._left = self.quota.budget_ns


def worked(
    quota: Quota, phases: Iterable[tuple[int, int]], border_ns: int = 0
) -> tuple[list[int], int]:
    """Phases of (waiting, work) behind one another from 0 on: when each work ends, and when all."""
    budget, now, ends = Budget(quota, border_ns), 0, []
    for waiting_ns, work_ns in phases:
        now = budget.worked(now + waiting_ns, work_ns)
        ends.append(now)
    return ends, now
