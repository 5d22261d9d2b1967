"""`Watch`: how long the steps of a running job take, beside what was predicted."""

from collections.abc import Sequence

from paceline.report.trackers import Tracker, prediction_figures, step_figures
from paceline.report.trackers.figures import Expected, compared_figures, measured_figures
from paceline.verify import Measured

WARM = 5
"""First steps that do not count: lazily made state, first touched memory."""


class Watch:
    """Told of every border between steps; writes each step, and in the end all of them beside the
    prediction."""

    def __init__(
        self, trackers: Sequence[Tracker], expected: Expected | None = None, warm: int = WARM
    ) -> None:
        self._trackers, self._expected, self._warm = trackers, expected, warm
        self._steps_ns: list[int] = []
        self._border_ns: int | None = None
        self._last = 0

    def begin(self, step: int) -> None:
        self._last = step
        if self._expected is not None:
            self._write(prediction_figures(self._expected), step)

    def border(self, step: int, now_ns: int) -> None:
        """An optimizer step has ended. The first border only begins a step."""
        if self._border_ns is not None:
            self._steps_ns.append(now_ns - self._border_ns)
            self._write(step_figures(self._steps_ns[-1]), step)
        self._border_ns, self._last = now_ns, step

    def pause(self) -> None:
        """What comes until the next border, such as an evaluation, is no step."""
        self._border_ns = None

    def end(self) -> Measured | None:
        """What was measured; None where no step counts."""
        counted = tuple(self._steps_ns[self._warm :])
        if not counted:
            return None
        seen = Measured(counted, {})
        expected = self._expected
        found = compared_figures(expected, seen) if expected else measured_figures(seen)
        self._write(found, self._last)
        return seen

    def _write(self, figures: dict[str, float], step: int) -> None:
        for tracker in self._trackers:
            tracker(figures, step)
