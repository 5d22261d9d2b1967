"""What a stage's own thread does so that less passes a border: `runtime.stages.torch_border`."""

from dataclasses import dataclass

from paceline.runtime.stages import TaskKind


@dataclass(frozen=True)
class Packing:
    """Nanoseconds for a micro-batch, as `runtime.stages.torch_profile.measure_border` finds them:
    activations are chosen and packed by the stage before the border, restored by the one behind;
    their gradients are chosen behind, and restored before."""

    close_ns: int = 0
    open_ns: int = 0
    mask_ns: int = 0
    restore_ns: int = 0


@dataclass(frozen=True)
class Borders:
    """One for each border, in order; empty where all pass whole messages."""

    packing: tuple[Packing, ...] = ()

    def taking_ns(self, virtual: int, work: TaskKind) -> int:
        """Before a pass, of the message that it works on."""
        if work is TaskKind.FORWARD:
            return self._of(virtual - 1).open_ns
        return self._of(virtual).restore_ns if work is TaskKind.BACKWARD else 0

    def giving_ns(self, virtual: int, work: TaskKind) -> int:
        """Behind a pass, of the message that it makes."""
        if work is TaskKind.FORWARD:
            return self._of(virtual).close_ns
        return self._of(virtual - 1).mask_ns if work is TaskKind.BACKWARD else 0

    def _of(self, border: int) -> Packing:
        return self.packing[border] if 0 <= border < len(self.packing) else Packing()


WHOLE = Borders()
