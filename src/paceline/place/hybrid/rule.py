"""The rule of thumb: as little model parallelism as fits, tensor ranks first within a host, then
pipeline stages; micro-batches of one; recompute only where nothing fits without (Narayanan et al.
2021, takeaways 1 to 3). Experts are spread over all ranks of a stage in a host."""

from math import gcd

from paceline.errors import GraphError
from paceline.imagine.decoder import DecoderJob, Sharding, fullest
from paceline.imagine.transformer import Degrees, Recompute
from paceline.place.hybrid.question import PlanQuestion


def rule_of_thumb(question: PlanQuestion) -> DecoderJob | None:
    """The first plan by that rule that fits; None where none does."""
    for recompute in (Recompute.NONE, Recompute.FULL):
        for tensor, pipeline in _ways(question):
            job = _job(question, tensor, pipeline, recompute)
            if job is not None and fullest(job).total <= question.memory_bytes:
                return job
    return None


def _ways(question: PlanQuestion) -> list[tuple[int, int]]:
    """Tensor x pipeline, growing: powers of two within a host, then stages."""
    site = question.site
    within = [n for n in _powers(site.per_host) if n <= 8]
    stages = [n for n in _powers(site.ranks) if 1 < n <= question.model.layers]
    return [(n, 1) for n in within] + [(within[-1], n) for n in stages]


def _job(
    question: PlanQuestion, tensor: int, pipeline: int, recompute: Recompute
) -> DecoderJob | None:
    ranks, rest = divmod(question.site.ranks, tensor * pipeline)
    if rest or not ranks:
        return None
    experts = question.model.experts
    spread = min(question.site.per_host, tensor * ranks)
    expert = gcd(experts.count, spread) if experts else 1
    try:
        return question.job(
            Degrees(ranks, tensor, pipeline, 1, expert),
            recompute=recompute,
            sharding=Sharding.OPTIMIZER,
        )
    except GraphError:
        return None


def _powers(most: int) -> list[int]:
    return [n for n in (2**i for i in range(20)) if n <= most]
