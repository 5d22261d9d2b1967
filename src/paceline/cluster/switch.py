"""`Switch`: what a cluster's switches do with packets beyond first come, first served."""

from dataclasses import dataclass

from paceline.cluster.quantities import ClusterError


@dataclass(frozen=True)
class Switch:
    """Strict priorities by DSCP; limits as shares of the port's buffer. See docs/wire.md.

    Packets of importance 0 are dropped above `drop` of the buffer, those of importance 7 only by a
    full one, the others evenly between; packets that can be marked are marked above `mark`. With
    `spray`, packets that carry a code take all equal paths in turn.
    """

    drop: float = 0.25
    mark: float = 0.2
    spray: bool = False

    def __post_init__(self) -> None:
        if not (0 < self.drop <= 1 and 0 <= self.mark <= 1):
            raise ClusterError(
                f"switch.drop={self.drop}, switch.mark={self.mark}; give shares of the buffer, "
                "drop above 0 (mark: 0 never marks)"
            )
