"""Which plans `strategies.py` measures, in which jobs, and in which order.

A strategy is measured in jobs that it fits: one for a certain operator in models that have this
operator, one for pipelines in a pipeline. Rows come in a fixed random order, those of strategies
that no row tells of before all others.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from paceline.strategies import Plan, StrategyError, kind_of, known, parse

SEED = 12
PAIRS = 30

Wanted = tuple[str, ...]  # a plan, its strategies as text


@dataclass(frozen=True)
class Job:
    """What is trained, and how it is parallel (as jobs/parallel.py names it, or ddp)."""

    model: str
    parallel: str = "ddp"

    def __str__(self) -> str:
        return self.model if self.parallel == "ddp" else f"{self.model} {self.parallel}"

    @property
    def key(self) -> str:
        return str(self).replace(" ", "-")


@dataclass(frozen=True)
class Cell:
    """A job and where it runs. At 0 Mbit/s all workers are on one host."""

    job: Job
    workers: int
    mbit: int

    def key(self, plan: Sequence[str]) -> str:
        place = f"{self.mbit} Mbit/s" if self.mbit else "one host"
        return f"{self.job} x{self.workers} {place}: {' + '.join(plan)}"

    @property
    def shown(self) -> dict[str, str | int]:
        return {"model": str(self.job), "workers": self.workers, "mbit": self.mbit}


PLACES = ((2, 1000), (2, 100), (4, 1000), (4, 100))
TWO = ((2, 1000), (2, 100))
"""For jobs without replicas when recorded, of which four workers would be two."""
ONE_HOST = ((2, 0),)

DDP = (Job("mlp"), Job("resnet20"), Job("transformer"))
IMAGES = (Job("resnet20"), Job("stack"), Job("wide"))
LINEAR = (Job("mlp"), Job("transformer"), Job("separate"))
LOADED = (Job("resnet20", "loaded"),)


@dataclass(frozen=True)
class Asked:
    """A plan of one strategy; `{mbit}` and `{shares}` in its text are the cell's."""

    text: str
    jobs: tuple[Job, ...] = DDP
    places: tuple[tuple[int, int], ...] = PLACES
    batches: float = 1.0  # recorded ones in a step of the script
    settles: int = 0  # steps behind which it works as in later ones

    def plan(self, workers: int, mbit: int) -> Wanted:
        shares = tuple(2.0 if rank == 0 else 1.0 for rank in range(workers))
        return (self.text.replace("{mbit}", str(mbit)).replace("{shares}", str(shares)),)


ASKED: Mapping[str, tuple[Asked, ...]] = {
    "accumulate": (Asked("accumulate(steps=4)"),),
    "adaptive_topk": (Asked("adaptive_topk(ratios=(0.01,))"),),
    "batch": (Asked("batch(factor=2.0)", LOADED, batches=2.0),),
    "batchnorm_relu": (Asked("batchnorm_relu", IMAGES),),
    "block_circulant": (Asked("block_circulant", (*LINEAR, Job("stack"))),),
    "border_topk": (Asked("border_topk(width=1024)", (Job("mlp", "pipeline_data"),), TWO),),
    "bounded_loss": (Asked("bounded_loss(link_mbit_per_s={mbit})"),),
    "buckets": (Asked("buckets(size_bytes=1048576)"),),
    "channels_last": (Asked("channels_last", IMAGES),),
    "checkpoint": (Asked("checkpoint(layers='*')"),),
    "data_workers": (Asked("data_workers(count=1)", LOADED),),
    "dgc": (Asked("dgc(warmup=0)"),),
    "diloco": (Asked("diloco(period=8)"),),
    "factored": (Asked("factored(rank=64)", LINEAR),),
    "fused_step": (Asked("fused_step", DDP, ONE_HOST),),
    "hierarchical": (Asked("hierarchical(on_host=2)"),),
    "keep_gathered": (Asked("keep_gathered", (Job("mlp", "fsdp2"), Job("transformer", "fsdp2"))),),
    "late_gradients": (Asked("late_gradients", LINEAR),),
    "local_sgd": (Asked("local_sgd(period=4)"),),
    "low_rank": (Asked("low_rank", LINEAR),),
    "overlap_local_sgd": (Asked("overlap_local_sgd(period=4)"),),
    "overlapped_products": (Asked("overlapped_products", (Job("mlp", "tensor"),), TWO),),
    "partition": (Asked("partition(parts=4)"),),
    "prefetch": (Asked("prefetch", LOADED),),
    "random_block": (Asked("random_block(ratio=0.1)"),),
    "relu_masks": (Asked("relu_masks", (Job("resnet20"), Job("stack"))),),
    "restructured_norms": (Asked("restructured_norms", IMAGES),),
    "substitute": (
        Asked("substitute", (Job("mlp"), Job("stack"), Job("wide"))),
        Asked("substitute(rules='merge_products')", (Job("separate"),)),
    ),
    "sufficient_factors": (Asked("sufficient_factors(rows=32)", (Job("mlp"),)),),
    "tensor_parallel": (Asked("tensor_parallel(degree=2)", LINEAR),),
    "threshold": (Asked("threshold", settles=20),),
    "uneven_batches": (Asked("uneven_batches(shares={shares})", LOADED, TWO),),
}
"""Strategies that need settings or certain jobs; others stand for themselves in all of `DDP`."""

NOT_HERE = {
    "cache": "what it saves is known from data sets of `paceline io`, which no job here reads",
    "format": "what it saves is known from data sets of `paceline io`, which no job here reads",
    "offload_activations": "it moves what lies on a device",
}

Row = tuple[Cell, Wanted]


def singles(only: Sequence[str] = ()) -> list[Row]:
    """Every strategy that can be applied, alone in each of its settings."""
    names = [n for n in known() if kind_of(n).applies and n not in NOT_HERE]
    return [row for name in names if not only or name in only for row in rows_of(name)]


def rows_of(name: str) -> Iterator[Row]:
    for asked in asked_of(name):
        for job in asked.jobs:
            for workers, mbit in asked.places:
                yield Cell(job, workers, mbit), asked.plan(workers, mbit)


def asked_of(name: str) -> tuple[Asked, ...]:
    return ASKED.get(name, (Asked(name),))


def batches_in(plan: Wanted) -> float:
    """Recorded batches in a step of the script."""
    return max((asked.batches for asked in _each_of(plan)), default=1.0)


def settles_in(plan: Wanted) -> int:
    """Steps until the plan works as in later ones: a threshold grows with what waits."""
    return max((asked.settles for asked in _each_of(plan)), default=0)


def _each_of(plan: Wanted) -> Iterator[Asked]:
    for name in _names(plan):
        yield from asked_of(name)


def pairs() -> list[Row]:
    """Two strategies that do not exclude each other, each pair in one setting that both fit; drawn
    with a fixed seed."""
    by_cell: dict[Cell, list[str]] = {}
    for cell, (text,) in singles():
        by_cell.setdefault(cell, []).append(text)
    every = [
        (cell, both)
        for cell, texts in by_cell.items()
        for both in combinations(texts, 2)
        if _at_peace(both)
    ]
    random.Random(SEED).shuffle(every)
    first = {frozenset(_names(both)): (cell, both) for cell, both in reversed(every)}
    drawn = [row for row in every if first[frozenset(_names(row[1]))] == row]
    return [(cell, _in_order(both)) for cell, both in drawn[:PAIRS]]


def _names(plan: Wanted) -> list[str]:
    return [text.partition("(")[0] for text in plan]


def _at_peace(both: Wanted) -> bool:
    return bool(_in_order(both))


def _in_order(both: Wanted) -> Wanted:
    """The pair as a plan takes it, or nothing where it takes it in no order."""
    for plan in (both, both[::-1]):
        try:
            Plan(tuple(parse(text) for text in plan))
        except StrategyError:
            continue
        return plan
    return ()


def in_turn(rows: Iterable[Row], told: Iterable[Wanted]) -> list[Row]:
    """Rows in a fixed random order, first those of plans of which `told` has no row yet."""
    known_names = {frozenset(_names(plan)) for plan in told}
    order = sorted(rows, key=lambda row: row[0].key(row[1]))
    random.Random(SEED).shuffle(order)
    return sorted(order, key=lambda row: frozenset(_names(row[1])) in known_names)
