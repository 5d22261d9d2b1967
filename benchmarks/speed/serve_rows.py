"""The rows of `serve.py`: a model and a batch, planned from its profile and run in every division.

Each configuration is run once; those within 30 % of the best are run on, then those within 10 %.
The plan, the best and all plain choices are then run again in turn, and only these runs count:
eleven times and for twenty seconds at least, for who shares the machine can be busy for all of
three; or, of batches that take seconds, as often as fits into a minute, and five times. OpenVINO
comes behind them, in turn with the plan, in a process of its own that then ends: its threads stay
awake, and made two threads of ours take 144 ms for what they do in 114.
"""

import asyncio
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from paceline.serve import InstanceShare, Prepared, ServeJob, prepared
from paceline.serve.files import folder
from paceline.serve.instance import Instance
from paceline.serve.together import together_ns
from paceline.serve.topology import pinned

JOBS = Path(__file__).parent / "jobs"
MODELS = JOBS / "served_models.py"
NAMES = ("resnet50", "bert_base", "gpt2")
BATCHES = (1, 2, 4, 8, 16, 32, 64)
MOST = 500  # configurations; beyond it each set of instances gets even parts alone
CLOSE = (1.3, 1.1)
LIMIT_S = 600.0
SEED = 18
ROUNDS, FEWEST = 11, 5
LEAST_S, ROUNDS_S = 20.0, 60.0
REST_S = 0.3
"""Behind OpenVINO's turns: its threads spin on for a while, and would slow who comes next."""


@dataclass(frozen=True)
class Planned:
    """A row by its name."""

    model: str
    batch: int

    @property
    def name(self) -> str:
        return f"{self.model} {self.batch}"

    def made(self) -> dict[str, Any]:
        return asyncio.run(_made(self))


def planned() -> list[Planned]:
    """All rows, in a fixed random order."""
    rows = [Planned(model, batch) for model in NAMES for batch in BATCHES]
    random.Random(SEED).shuffle(rows)
    return rows


async def _made(wanted: Planned) -> dict[str, Any]:
    """From the profile that `paceline serve` keeps too, measured where there is none."""
    job = ServeJob(
        f"{MODELS}:{wanted.model}", os.cpu_count() or 1, max(BATCHES), folder(os.environ)
    )
    load = os.getloadavg()[0]
    async with prepared(job, said) as found, AsyncExitStack() as stack:
        told = await row(Bench(found, stack), wanted)
    return {"model": wanted.model, "load": round(load, 2), "profile": found.profile.date, **told}


def said(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


Shares = tuple[InstanceShare, ...]


@dataclass
class Bench:
    """Runs any configuration of a model; instances are kept by their threads."""

    found: Prepared
    stack: AsyncExitStack
    instances: dict[tuple[int, ...], list[Instance]] = field(default_factory=dict)

    async def ns(self, shares: Shares) -> float:
        """One batch, after one that is not counted where the instances are new to it."""
        threads = tuple(share.threads for share in shares)
        if threads not in self.instances:
            places = pinned(self.found.topology, threads)
            made = [await self.found.template.instance(place) for place in places]
            for one in made:
                self.stack.push_async_callback(one.end)
            self.instances[threads] = made
            await together_ns(made, [share.batch for share in shares], LIMIT_S)
        parts = [share.batch for share in shares]
        return await together_ns(self.instances[threads], parts, LIMIT_S)


async def row(bench: Bench, wanted: Planned) -> dict[str, Any]:
    """The plan, the best of all, and the plain choices, run in turn."""
    batch = wanted.batch
    plain = {one.name: one.plan.shares for one in bench.found.rows(batch)}
    everything = list(configurations(bench.found.job.cores, batch))
    close = await raced(bench, everything)
    turns: dict[Shares, list[float]] = {shares: [] for shares in {*plain.values(), *close}}
    for turn in rounds():
        for shares in turns:
            took = await bench.ns(shares)
            if turn:
                turns[shares].append(took)
    medians = {shares: statistics.median(runs) for shares, runs in turns.items()}
    plan, best = medians[plain["plan"]], min(medians.values())
    chosen = measure.spread(turns[plain["plan"]])
    found = {
        "batch": batch,
        "gap": plan / best - 1,
        "noise": (chosen["p90"] - chosen["p10"]) / 2 / chosen["median"],
        "vs_one_instance": medians[plain["one instance on all cores"]] / plan,
        "vs_plain": min(medians[shares] for n, shares in plain.items() if n != "plan") / plan,
        "plan": told(plain["plan"]),
        "best": told(min(medians, key=lambda shares: medians[shares])),
        "predicted_ms": bench.found.plan(batch).latency_ns / 1e6,
        "plan_ms": plan / 1e6,
        "configurations": len(everything),
        "run_again": len(close),
        "plain_ms": {n: medians[shares] / 1e6 for n, shares in plain.items()},
    }
    if find_spec("openvino") is not None:
        with timed_apart(wanted) as timers:
            found |= await beside(bench, plain["plan"], timers)
    return found


def rounds() -> Iterator[int]:
    """Turn by turn; the first is not to be counted."""
    begin = time.monotonic()
    for turn in count():
        passed = time.monotonic() - begin
        if (turn > ROUNDS and passed > LEAST_S) or (turn > FEWEST and passed > ROUNDS_S):
            return
        yield turn


Timers = dict[str, Callable[[], float]]
"""Nanoseconds of one batch in OpenVINO, by what it was asked for."""


async def beside(bench: Bench, plan: Shares, timers: Timers) -> dict[str, Any]:
    """The plan and OpenVINO under each of its hints, in turn."""
    ours = list[float]()
    others: dict[str, list[float]] = {hint: [] for hint in timers}
    for turn in rounds():
        took = await bench.ns(plan)
        theirs = {}
        for hint, run in timers.items():
            theirs[hint] = run()
            time.sleep(REST_S)
        if turn:
            ours.append(took)
            for hint, ns in theirs.items():
                others[hint].append(ns)
    ms = {hint: statistics.median(runs) / 1e6 for hint, runs in others.items()}
    plan_ms = statistics.median(ours) / 1e6
    return {"openvino_ms": ms, "plan_beside_openvino_ms": plan_ms} | {
        name: min(each for hint, each in ms.items() if hint.endswith(said)) / plan_ms
        for name, said in (("vs_openvino", FLOAT32), ("vs_openvino_unasked", UNASKED))
    }


def told(shares: Shares) -> str:
    return " + ".join(f"{share.threads}t x {share.batch}" for share in shares)


async def raced(bench: Bench, everything: Sequence[Shares]) -> list[Shares]:
    """Those that may be the best: each is run once, close ones again, and then the closest."""
    times = {shares: [await bench.ns(shares)] for shares in everything}
    for factor, more in zip(CLOSE, (2, 3)):
        best = min(min(runs) for runs in times.values())
        times = {s: runs for s, runs in times.items() if min(runs) <= factor * best}
        for _ in range(more):
            for shares in times:
                times[shares].append(await bench.ns(shares))
    ranked = sorted(times, key=lambda shares: statistics.median(times[shares]))
    return ranked[:8]


def configurations(cores: int, batch: int) -> Iterator[Shares]:
    """Each set of instances and each division of the batch among them, once."""
    every = list(divisions(cores, batch, InstanceShare(cores, batch)))
    if len(every) <= MOST:
        yield from every
        return
    yield from (s for s in every if max(x.batch for x in s) - min(x.batch for x in s) <= 1)


def divisions(cores: int, batch: int, most: InstanceShare) -> Iterator[Shares]:
    """Shares in falling order, so that no set comes twice."""
    if batch == 0:
        yield ()
        return
    for threads in range(min(cores, most.threads), 0, -1):
        largest = min(batch, most.batch) if threads == most.threads else batch
        for samples in range(largest, 0, -1):
            one = InstanceShare(threads, samples)
            for rest in divisions(cores - threads, batch - samples, one):
                yield (one, *rest)


@contextmanager
def timed_apart(wanted: Planned) -> Iterator[Timers]:
    """OpenVINO's timers of a row, as long as the block, in another process."""
    apart = get_context("spawn")
    here, there = apart.Pipe()
    process = apart.Process(target=_times, args=(there, wanted), daemon=True)
    process.start()
    there.close()

    def asked(hint: str) -> float:
        here.send(hint)
        took: float = here.recv()
        return took

    try:
        yield {hint: partial(asked, hint) for hint in here.recv()}
    finally:
        here.close()
        process.join()


def _times(pipe: "Connection[Any, Any]", wanted: Planned) -> None:
    timers = OpenVino.of(wanted.model).compiled(wanted.batch)
    pipe.send(list(timers))
    try:
        while True:
            pipe.send(timers[pipe.recv()]())
    except EOFError:
        return


LATENCY, FLOAT32, UNASKED = "LATENCY", "float32", "unasked"


class OpenVino:
    """The same model under OpenVINO's two performance hints; where it installs."""

    def __init__(self, model: Any, example: Any) -> None:
        import openvino

        self._core = openvino.Core()
        self._model, self._example = model, example
        self._converted = openvino.convert_model(model, example_input=example)

    @staticmethod
    def of(name: str) -> "OpenVino":
        import torch

        sys.path.insert(0, str(JOBS))
        import served_models

        torch.set_num_threads(1)
        model, example = getattr(served_models, name)()
        return OpenVino(model.eval(), example)

    def compiled(self, batch: int) -> Timers:
        """Nanoseconds of one batch: as one request for latency, and divided among the requests
        that the hint for throughput asks for; each in the model's own float32, and in what OpenVINO
        takes unasked, bfloat16 where the processor has it."""
        return {
            f"{hint} {said}": self._timer({"PERFORMANCE_HINT": hint, **asked}, batch)
            for hint in (LATENCY, "THROUGHPUT")
            for said, asked in ((FLOAT32, {"INFERENCE_PRECISION_HINT": "f32"}), (UNASKED, {}))
        }

    def _timer(self, asked: dict[str, str], batch: int) -> Callable[[], float]:
        import openvino

        made = self._core.compile_model(self._converted, "CPU", asked)
        several = asked["PERFORMANCE_HINT"] != LATENCY
        jobs = min(batch, made.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS") if several else 1)
        parts = [batch // jobs + (n < batch % jobs) for n in range(jobs)]
        queue = openvino.AsyncInferQueue(made, jobs)
        inputs = [self._inputs(part) for part in parts]

        def run() -> float:
            begin = time.monotonic_ns()
            for given in inputs:
                queue.start_async(given)
            queue.wait_all()
            return time.monotonic_ns() - begin

        run()
        return run

    def _inputs(self, part: int) -> Any:
        given = self._example if isinstance(self._example, dict) else {0: self._example}
        return {n: t.expand(part, *t.shape[1:]).contiguous().numpy() for n, t in given.items()}
