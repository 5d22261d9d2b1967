"""All plans of a question whose degrees divide, before memory and time are asked for.

What is left out can only be worse: GPipe has the bubble of 1F1B and holds every micro-batch; plain
data parallelism sends as much as the distributed optimizer and holds more (but for gloo).
Megatron-LM does not share out weights in a pipeline. Full recomputation is for all layers, or for
as few as make the plan fit: with more of them the step is longer.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import ceil

from paceline.errors import GraphError
from paceline.graph.schedules import Schedule
from paceline.imagine.decoder import DecoderJob, Selective, Sharding, fullest
from paceline.imagine.transformer import Degrees, Recompute
from paceline.place.hybrid.question import PlanQuestion


def candidates(question: PlanQuestion) -> Iterator[DecoderJob]:
    """Every plan that can be run; `DecoderJob` has checked each."""
    for degrees in _degrees(question):
        for micro_batch in _micro_batches(question, degrees):
            for chunks, sharding, recompute in product(
                _chunks(question, degrees, micro_batch),
                _shardings(question, degrees),
                _recomputes(question),
            ):
                job = _job(question, degrees, micro_batch, (chunks, sharding, recompute))
                if job is not None:
                    yield job
                    yield from _with_fewer(question, job)


def _degrees(question: PlanQuestion) -> Iterator[Degrees]:
    model, site = question.model, question.site
    sequence = question.sequence or model.sequence
    for tensor in _divisors(site.per_host):
        if model.attention.heads % tensor:
            continue
        for context in _divisors(site.ranks // tensor):
            if context > 1 and sequence // context < question.allowed.least_context:
                continue
            for pipeline in _divisors(site.ranks // tensor // context):
                data = site.ranks // tensor // context // pipeline
                if pipeline > model.layers or question.global_batch % data:
                    continue
                for expert in _experts(question, tensor * context * data):
                    yield Degrees(data, tensor, pipeline, context, expert)


def _experts(question: PlanQuestion, ranks: int) -> Iterator[int]:
    experts = question.model.experts
    if experts is None:
        yield 1
        return
    for expert in _divisors(experts.count):
        if ranks % expert == 0:
            yield expert


def _micro_batches(question: PlanQuestion, degrees: Degrees) -> Iterator[int]:
    for size in question.allowed.micro_batches:
        if question.global_batch % (degrees.data * size) == 0:
            yield size


def _chunks(question: PlanQuestion, degrees: Degrees, micro_batch: int) -> Iterator[int]:
    """1, and where stages interleave as many as cut the layers evenly, ends counted or not."""
    layers, stages = question.model.layers, degrees.pipeline
    count = question.global_batch // degrees.data // micro_batch
    interleaves = Schedule.INTERLEAVED in question.allowed.schedules
    for chunks in question.allowed.chunks:
        cut = stages * chunks
        even = layers % cut == 0 or (layers + 2) % cut == 0
        if chunks == 1:
            yield 1
        elif interleaves and stages > 1 and even and cut <= layers and count % stages == 0:
            yield chunks


def _shardings(question: PlanQuestion, degrees: Degrees) -> Iterator[Sharding]:
    if degrees.data * degrees.sequence == 1 and question.model.experts is None:
        yield Sharding.NONE
        return
    if question.site.network is not None:
        yield Sharding.NONE  # by gloo a reduce-scatter sends as much as an all-reduce
    for how in question.allowed.shardings:
        if how is Sharding.FULL and degrees.pipeline > 1 and not question.habits.wide_weights:
            continue
        several = min(question.site.hosts, question.site.per_host) > 1 and degrees.pipeline == 1
        if how is not Sharding.HYBRID or (several and degrees.expert == 1):
            yield how


def _recomputes(question: PlanQuestion) -> Iterator[Recompute]:
    """Selective recomputation of attention changes nothing where one kernel does attention."""
    habits = question.habits
    idle = habits.fused_attention and habits.selective is Selective.ATTENTION
    for how in question.allowed.recomputes:
        if not (idle and how is Recompute.SELECTIVE):
            yield how


def _with_fewer(question: PlanQuestion, job: DecoderJob) -> Iterator[DecoderJob]:
    """The same where the fewest layers that make it fit are recomputed; nothing where none need be,
    or where all are too few."""
    if job.recipe.recompute is not Recompute.FULL or not question.habits.recompute_some:
        return
    least = fullest(job).total
    if least > question.memory_bytes:
        return
    plain = replace(job, recipe=replace(job.recipe, recompute=Recompute.NONE))
    most = fullest(plain).total
    if most > question.memory_bytes:
        yield from _fewest(question, job, most, least)


def _fewest(question: PlanQuestion, job: DecoderJob, most: int, least: int) -> Iterator[DecoderJob]:
    """Between no layers, which hold too much, and all, which fit: each guess is where a straight
    line between the two would meet the memory, so that the first one is mostly right."""
    few, enough, limit = 0, max(map(len, job.chunks)), question.memory_bytes
    while enough - few > 1:
        guess = few + ceil((most - limit) / (most - least) * (enough - few))
        guess = min(max(guess, few + 1), enough - 1)
        held = fullest(_recomputing(job, guess)).total
        if held > limit:
            few, most = guess, held
        else:
            enough, least = guess, held
    if enough < max(map(len, job.chunks)):
        yield _recomputing(job, enough)


def _recomputing(job: DecoderJob, layers: int) -> DecoderJob:
    return replace(job, recipe=replace(job.recipe, recomputed=layers))


def _job(
    question: PlanQuestion,
    degrees: Degrees,
    micro_batch: int,
    settings: tuple[int, Sharding, Recompute],
) -> DecoderJob | None:
    """None where degrees divide the counts and not a width of the model."""
    chunks, sharding, recompute = settings
    schedule = Schedule.INTERLEAVED if chunks > 1 else Schedule.ONE_F_ONE_B
    try:
        return question.job(
            degrees, micro_batch=micro_batch, chunks=chunks, schedule=schedule,
            sharding=sharding, recompute=recompute,
        )  # fmt: skip
    except GraphError:
        return None


def _divisors(count: int) -> list[int]:
    return [n for n in range(1, count + 1) if count % n == 0]
