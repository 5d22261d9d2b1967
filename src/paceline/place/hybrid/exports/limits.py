"""What a framework cannot do, as an error that says what to change."""

from paceline.imagine.decoder import DecoderJob
from paceline.imagine.transformer import Recompute
from paceline.place.operators.problem import PlacementError


def refuse(job: DecoderJob, framework: str, *lacking: str) -> None:
    """Refuse a plan whose degrees along these axes are above 1."""
    d = job.degrees
    degrees = {"pipeline": d.pipeline, "context": d.sequence, "expert": d.expert,
               "tensor": d.tensor}  # fmt: skip
    for axis in lacking:
        if degrees[axis] > 1:
            raise PlacementError(
                f"{framework} cannot run {axis}={degrees[axis]} from its configuration alone; give "
                f"--own a plan with {axis}=1, or export for another framework"
            )


def refuse_part(job: DecoderJob, framework: str, *, selective: bool = False) -> None:
    """Refuse recomputation of some layers and not of others, and unless it is there, selective."""
    r = job.recipe
    if r.recomputed:
        raise PlacementError(
            f"{framework} recomputes all layers or none from its configuration, the plan "
            f"{r.recomputed} of each chunk; give --own a plan with recompute=full, or export for "
            "megatron or torch"
        )
    if r.recompute is Recompute.SELECTIVE and not selective:
        raise PlacementError(
            f"{framework} has no selective recomputation; give --own a plan with recompute=full or "
            "none, or export for megatron or torchtitan"
        )
