"""What a job under a plan sent for its gradients, a line for each rank, and what was predicted."""

from collections.abc import Iterator, Sequence

from paceline.report.text.quantities import duration, size
from paceline.strategies.applying import RankSent
from paceline.strategies.sends import Sends


def sent_lines(ranks: Sequence[RankSent], predicted: Sends | None = None) -> Iterator[str]:
    if not ranks:
        yield "the plan was never entered: no optimizer stepped in the command's Python processes"
    for rank in ranks:
        under = f"rank {rank.rank}: {rank.steps} steps under the plan"
        yield (
            f"{under}; in each {rank.calls:.3g} calls with {size(rank.payload_bytes)} "
            f"({size(rank.wire_bytes)} on the wire), and {duration(rank.codec_ns)} of packing and "
            "unpacking"
            if rank.calls
            else f"{under}; no exchange of gradients went through it"
        )
    if ranks and (why := ranks[0].stale):
        yield why
    if predicted is not None:
        yield (
            f"predicted of each: {predicted.calls:.3g} calls with {size(predicted.payload_bytes)} "
            f"({size(predicted.wire_bytes)} on the wire)"
        )
