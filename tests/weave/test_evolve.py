"""Evolution: edits and gates, a search whose optimum is known, and sandboxed workers."""

import random
import shutil
from collections.abc import Sequence

import numpy as np
import pytest

from paceline.weave.backend import Backend, Buffers, Executable, Peers, Tunables
from paceline.weave.backends import backend
from paceline.weave.evolve import EvolutionSettings, EvolutionTask, LiveJudge, Variant, evolve
from paceline.weave.evolve.edits import Rewrite, RewriteKind, Setting, pool, variant
from paceline.weave.evolve.judge import Case, Judge
from paceline.weave.interpreter import interpret, split
from paceline.weave.layout import Group
from paceline.weave.program import Program
from paceline.weave.programs import adam, sgd
from paceline.weave.replayed import replayed_s
from paceline.weave.traffic import Rates
from paceline.weave.transforms import Refusal

TWO = Group.world(2)
FUSED = tuple(
    Rewrite(k)
    for k in (RewriteKind.SPLIT, RewriteKind.REORDER, RewriteKind.SLICE, RewriteKind.FUSE)
)


class Paper(Backend):
    """A machine on paper: runs everything, has two settings, and is priced by bytes."""

    name = "paper"

    def capabilities(self) -> str | None:
        return None

    def refusal(self, program: Program) -> str | None:
        return None

    def tunables(self, program: Program) -> tuple[Tunables, ...]:
        return tuple({"unroll": u, "stores": s} for u in (1, 4, 8) for s in ("plain", "streaming"))

    def compile(
        self, program: Program, peers: Peers, tunables: Tunables, buffers: Buffers | None = None
    ) -> Executable:
        raise AssertionError("nothing runs on paper")


class PaperJudge(Judge):
    """Right by the interpreter; timed by bytes, a tenth less for unroll 8, with a little noise."""

    def __init__(self) -> None:
        self.draw = random.Random(1)
        self.asked = 0

    def wrong(self, cases: Sequence[Case]) -> str | None:
        self.asked += 1
        for case in cases:
            rng = np.random.default_rng(case.seed)
            values = {
                s.name: np.abs(
                    rng.standard_normal((2, *s.type.shape) if s.name == "g" else s.type.shape)
                )
                for s in case.written.inputs
            }
            results = []
            for program in (case.written, case.variant.program):
                parts = {s.name: split(s.type, values[s.name]) for s in program.inputs}
                results.append(interpret(program, parts).value("w"))
            if not np.array_equal(*results):
                return "w differs"
        return None

    def times(self, variants: Sequence[Variant], rounds: int) -> list[list[float]]:
        rates = Rates(10e9, 1e9, 1e11, shared_memory=True)
        return [
            [
                replayed_s(v.program, rates)
                * (0.9 if v.tunables["unroll"] == 8 else 1.0)
                * self.draw.uniform(1.0, 1.01)
                for _ in range(rounds)
            ]
            for v in variants
        ]


def task() -> EvolutionTask:
    return EvolutionTask(sgd(100_000, TWO, momentum=0.9), (sgd(5, TWO, momentum=0.9),), Paper())


def test_edits_make_a_variant_in_order_and_refusals_stop_it() -> None:
    made = variant(task().written, (*FUSED, Setting("unroll", 8)), Paper())
    assert isinstance(made, Variant)
    assert len(made.program.launches()) == 1
    assert made.tunables == {"unroll": 8, "stores": "plain"}
    early = variant(task().written, (FUSED[1],), Paper())
    assert isinstance(early, Refusal)
    assert "split first" in early.reason


def test_the_pool_holds_every_rewrite_and_every_value_of_every_setting() -> None:
    found = pool(task().written, Paper())
    assert set(RewriteKind) == {e.kind for e in found if isinstance(e, Rewrite)}
    assert {str(e) for e in found if isinstance(e, Setting)} == {
        "unroll=1",
        "unroll=4",
        "unroll=8",
        "stores=plain",
        "stores=streaming",
    }


def test_evolution_finds_the_fused_unrolled_kernel_and_drops_idle_edits() -> None:
    judge = PaperJudge()
    found = evolve(
        task(), judge, random.Random(0), EvolutionSettings(population=12, generations=8, p=0.005)
    )
    best = found["evolved"]
    made = variant(task().written, best.genome, Paper())
    assert isinstance(made, Variant)
    assert made.tunables["unroll"] == 8
    assert len(made.program.launches()) == 1
    assert best.p < 0.01
    assert not [e for e in best.genome if isinstance(e, Setting) and e.name == "stores"]
    assert found["as written"].genome == ()
    assert found["random search"].seconds >= 0.98 * best.seconds
    assert judge.asked <= 2 * found.judged + len(best.genome) + found.dropped
    assert "genomes judged by each search" in found.table()


def test_both_searches_begin_with_the_seeds() -> None:
    seeded = EvolutionTask(task().written, task().held_out, Paper(), (FUSED,))
    found = evolve(
        seeded, PaperJudge(), random.Random(0), EvolutionSettings(population=2, generations=1)
    )
    assert found["seed 0"].genome == FUSED
    for name in ("evolved", "random search"):
        assert found[name].seconds <= 1.02 * found["seed 0"].seconds


def test_a_wrong_variant_never_wins() -> None:
    class Suspicious(PaperJudge):
        """Believes nothing that is fused."""

        def wrong(self, cases: Sequence[Case]) -> str | None:
            return "fused" if any(c.variant.program.kernels for c in cases) else None

    found = evolve(
        task(), Suspicious(), random.Random(0), EvolutionSettings(population=8, generations=4)
    )
    assert set(found.wrong) <= {"fused"}
    assert Rewrite(RewriteKind.FUSE) not in found["evolved"].genome


@pytest.mark.live
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler for the cpu back end")
def test_sandboxed_workers_judge_right_crashed_and_timed_variants() -> None:
    pytest.importorskip("torch", reason="sandboxed workers run torch")
    runner = backend("cpu")
    small, large = adam(9, TWO), adam(2**33, TWO)
    made = variant(small, FUSED, runner)
    other_chunk = variant(small, (*FUSED, Setting("chunk", 4096)), runner)
    huge = variant(large, FUSED, runner)
    assert isinstance(made, Variant)
    assert isinstance(other_chunk, Variant)
    assert isinstance(huge, Variant)
    other = adam(9, TWO, eps=0.5)
    with LiveJudge("cpu", 2, timeout_s=60) as judge:
        assert judge.wrong([Case(small, made, 1, odd=True)]) is None
        assert "differs" in str(judge.wrong([Case(other, made, 1, odd=False)]))
        times = judge.times([made, other_chunk], 3)
        assert "sandboxed worker" in str(judge.wrong([Case(large, huge, 1, odd=False)]))
    assert [len(t) for t in times] == [3, 3]
    assert all(t > 0 for row in times for t in row)


@pytest.mark.live
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler for the cpu back end")
def test_a_search_goes_through_all_gates_on_real_workers() -> None:
    """Small, and with one schedule to find: what is right, counted and typed is what matters."""
    pytest.importorskip("torch", reason="sandboxed workers run torch")
    live = EvolutionTask(sgd(20_000, TWO), (sgd(7, TWO),), backend("cpu"))
    settings = EvolutionSettings(population=2, generations=2, rounds=3, final_rounds=5)
    with LiveJudge("cpu", 2, timeout_s=60) as judge:
        found = evolve(live, judge, random.Random(3), settings)
    assert found.wrong == ()
    assert found.judged >= 3
    assert [c.name for c in found.contenders] == ["as written", "evolved", "random search"]
    for contender in found.contenders:
        assert contender.seconds > 0
        assert isinstance(variant(live.written, contender.genome, live.runner), Variant)
    assert "genomes judged by each search" in found.table()
