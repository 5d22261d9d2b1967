"""What a framework cannot do, as an error that says what to change."""

from paceline.imagine.decoder import DecoderJob
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
