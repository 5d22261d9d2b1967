"""What a job under a plan sent for its gradients, a line a rank."""

from collections.abc import Iterator, Sequence

from paceline.report.text.quantities import duration, size
from paceline.strategies.applying import RankSent


def sent_lines(ranks: Sequence[RankSent]) -> Iterator[str]:
    if not ranks:
        yield "the plan was never entered: no optimizer stepped in the command's Python processes"
    for rank in ranks:
        yield (
            f"rank {rank.rank}: {rank.steps} steps under the plan; in each {rank.calls:.3g} calls "
            f"with {size(rank.payload_bytes)} ({size(rank.wire_bytes)} on the wire), and "
            f"{duration(rank.codec_ns)} of packing and unpacking"
        )
