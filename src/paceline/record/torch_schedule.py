"""Which step is observed how, and how the ranks agree on the first one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch.distributed as dist

from paceline.record.sidecar import Mode

LEAST_WARMUP = 3
MOST_WARMUP = 10
SETTLED = 0.15  # the last two step times differ by less than this
LEAST_TOGETHER = 2  # recorded steps in a stretch: one of them follows a recorded one
LEAD = 3  # steps from the decision to the start: no rank is further ahead of rank 0 by then


@dataclass(frozen=True)
class RecordSchedule:
    """Stretches of steps, one mode after the other; warm-up before `start`, done after the last."""

    steps: int
    plain: int
    start: int | None = None
    turns: bool = False  # recorded steps come in stretches, with plain ones behind each

    def starting_at(self, start: int | None) -> "RecordSchedule":
        return replace(self, start=start)

    def mode(self, index: int) -> Mode:
        if self.start is None or index < self.start:
            return Mode.WARMUP
        past = index - self.start
        for mode, length in self._stretches():
            if past < length:
                return mode
            past -= length
        return Mode.DONE

    def _stretches(self) -> tuple[tuple[Mode, int], ...]:
        begin = ((Mode.PLAIN, self.plain), (Mode.DETAIL, 1), (Mode.DRAIN, 1), (Mode.SETTLE, 1))
        count = min(self.plain, self.steps // LEAST_TOGETHER) if self.turns else 1
        if count > 1:
            return (*begin, *self._in_turn(count))
        end = ((Mode.DRAIN, 1), (Mode.WARMUP, 1), (Mode.PLAIN, self.plain))
        return (*begin, (Mode.RECORDED, self.steps), *end)

    def _in_turn(self, count: int) -> Iterator[tuple[Mode, int]]:
        """The same steps dealt into so many stretches. No range is open behind the last plain
        steps, so nothing has to drain."""
        for number in range(count):
            yield Mode.RECORDED, _share(self.steps, count, number)
            yield Mode.PLAIN, _share(self.plain, count, number)


def _share(whole: int, count: int, number: int) -> int:
    return whole * (number + 1) // count - whole * number // count


def agreed_start(rank: int, index: int, times_ns: list[int], recording: int) -> int | None:
    """The step at which all ranks begin, once rank 0 finds its steps steady; None until then.
    `recording` counts a job's recordings: each is agreed on by itself."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return index if _steady(times_ns) else None
    store = dist.distributed_c10d._get_default_store()
    key = f"paceline/recording-{recording}-starts-at"
    if rank == 0:
        if not _steady(times_ns):
            return None
        store.set(key, str(index + LEAD))
        return index + LEAD
    return int(store.get(key)) if store.check([key]) else None


def _steady(times_ns: list[int]) -> bool:
    """Warm caches, allocators and compiled code: the last two steps took about the same time."""
    if len(times_ns) < LEAST_WARMUP:
        return False
    last, before = times_ns[-1], times_ns[-2]
    return len(times_ns) >= MOST_WARMUP or abs(last - before) < SETTLED * before
