"""Plans whose jobs are replayed together score to the nanosecond what each scores alone."""

from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import Cluster, Host, Link
from paceline.cluster.files import device
from paceline.cluster.machine import Machine
from paceline.graph import NONE, Graph, load_graph
from paceline.graph.condense import Grain
from paceline.graph.law import check_columns
from paceline.graph.side_by_side import side_by_side
from paceline.graph.synthetic import Parallel, TrainingJob, training
from paceline.predict import Candidates, Question
from paceline.replay import replay
from paceline.search import Goal
from paceline.search.judge import Judge
from paceline.search.score import Refused
from paceline.search.space import Plan, space_of
from paceline.strategies import Effect, parse

RECORDED = Path(__file__).parents[2] / "benchmarks" / "results" / "strategies"
EVERYTHING = Goal(allow=Effect.RELAXED)
JOBS = ("mlp", "resnet20", "synthetic")


@cache
def asked(name: str, on_links: bool) -> Candidates:
    if name == "synthetic":
        graph = training(TrainingJob(Parallel.DDP, workers=3, steps=3, jitter=0.1))
    else:
        graph = load_graph(RECORDED / name)
    core = device("epyc-2c")
    hosts = tuple(Host(f"h{i}", core) for i in range(graph.world_size))
    lan = Cluster(hosts, Link.both_ways(6e7)) if on_links else None
    return Candidates(graph, lan, Question(), coarse=True, memory=False)


@cache
def plans(name: str) -> tuple[tuple[Plan, ...], ...]:
    """Of every strategy that the job takes or not, alone, in pairs, and a few long ones."""
    job = asked(name, True)
    space = space_of(job, EVERYTHING, live_only=False)
    alone = [(setting,) for setting in space.settings]
    pairs = [space.joined(one, other[0]) for one in alone[::3] for other in alone[::2]]
    longer = [space.joined(two, one[0]) for two, one in zip(pairs[::5], alone * len(pairs))]
    alone += [(setting,) for setting, _ in space.refused]
    return tuple(alone), tuple(pairs), tuple(longer)


@settings(max_examples=12, deadline=None)
@given(data=st.data(), name=st.sampled_from(JOBS), on_links=st.booleans())
def test_plans_together_score_what_each_scores_alone(
    data: st.DataObject, name: str, on_links: bool
) -> None:
    every = [plan for some in plans(name) for plan in some]
    drawn = [every[at] for at in data.draw(st.lists(st.integers(0, len(every) - 1), max_size=12))]
    job = asked(name, on_links)
    alone, many = Judge(replace(job)), Judge(replace(job))
    assert list(many.scores(drawn)) == [alone.score(plan) for plan in drawn]


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("on_links", [True, False])
def test_all_plans_of_a_job_score_together_what_each_scores_alone(
    name: str, on_links: bool
) -> None:
    job = asked(name, on_links)
    alone, many = Judge(replace(job)), Judge(replace(job))
    for some in plans(name):
        assert list(many.scores(some)) == [alone.score(plan) for plan in some]


AT_ONCE = ("partition(parts=2)", "partition(parts=8)", "priority", "overlap_update")


@pytest.mark.parametrize("name", ["mlp", "resnet20"])
def test_changes_made_to_many_jobs_at_once_score_what_each_scores_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = asked(name, True)
    whole = sum(job.graph.facts.gradient_bytes().values())
    ends = [
        end for some in range(1, 4) for end in combinations(AT_ONCE, some) if AT_ONCE[:2] != end[:2]
    ]
    before = ((), AT_ONCE[:1], AT_ONCE[2:3], (AT_ONCE[0], AT_ONCE[2]))
    ends += [(*some, "early_update") for some in before]
    some = [
        tuple(map(parse, (f"buckets(size_bytes={whole // share})", *end)))
        for share in (1, 3, 8)
        for end in ends
    ]
    expected = [Judge(replace(job)).score(plan) for plan in some]
    assert not any(isinstance(score, Refused) for score in expected)
    many = Judge(replace(job))
    monkeypatch.setattr(Judge, "score", None)  # none is left to be scored alone
    assert list(many.scores(some)) == expected


def test_a_plan_that_cannot_be_replayed_is_refused_alone() -> None:
    """Unpriced ops are found when the stack is replayed: what stands beside them is not refused."""
    job = asked("synthetic", True)
    names = ("buckets(size_bytes=1000000)", "workers(count=2)", "priority", "fp16", "zero1")
    some = [(), *((parse(name),) for name in names)]
    found = list(Judge(replace(job)).scores(some))
    assert found == [Judge(replace(job)).score(plan) for plan in some]
    assert [isinstance(score, Refused) for score in found].count(True) == 1


def test_where_one_of_many_cannot_be_replayed_the_others_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = asked("synthetic", True)
    some = [(parse(f"buckets(size_bytes={n}00000)"),) for n in range(1, 40)]
    expected = [Judge(replace(job)).score(plan) for plan in some]
    bad = replace(job)
    wrong = replace(bad.once(some[7])[0])
    ops = replace(wrong.ops, dur_ns=np.where(wrong.ops.kind == 0, -5, wrong.ops.dur_ns))
    real = Candidates.once

    def once(self: Candidates, plan: Plan) -> tuple[Graph, int]:
        made, times = real(self, plan)
        return (replace(made, ops=ops), times) if plan == some[7] else (made, times)

    monkeypatch.setattr(Candidates, "once", once)
    found = list(Judge(bad).scores(some))
    refused = found.pop(7)
    expected.pop(7)
    assert isinstance(refused, Refused)
    assert "must not be negative" in refused.reason
    assert found == expected


def test_jobs_that_share_cores_are_replayed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    job = replace(asked("synthetic", True), question=Question(machine=Machine(2.0)))
    monkeypatch.setattr("paceline.search.side_by_side.together", None)
    some = [(), (parse("buckets(size_bytes=1000000)"),)]
    assert list(Judge(job).scores(some)) == [Judge(replace(job)).score(plan) for plan in some]


def test_limits_that_cut_alike_are_replayed_once() -> None:
    job = asked("synthetic", True)
    whole = sum(job.graph.facts.gradient_bytes().values())
    one, other = (job.once((parse(f"buckets(size_bytes={whole + n})"),))[0] for n in (1, 2))
    assert one is other


@settings(max_examples=8, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(list(Parallel)), st.integers(1, 4), st.integers(1, 3)),
        min_size=1,
        max_size=5,
    )
)
def test_graphs_side_by_side_are_lawful_and_run_as_they_do_alone(
    drawn: list[tuple[Parallel, int, int]],
) -> None:
    graphs = [
        training(TrainingJob(parallel, workers=workers, layers=layers))
        for parallel, workers, layers in drawn
    ]
    side = side_by_side(graphs)
    check_columns(side.graph)
    together = replay(side.graph)
    made, of = side.told_apart()
    for at, graph in enumerate(graphs):
        mine = of == at
        np.testing.assert_array_equal(together.start_ns[mine], replay(graph).start_ns)
        np.testing.assert_array_equal(made.ops.rank[mine], graph.ops.rank)
        groups = [made.groups[group] for group in made.ops.group[mine].tolist() if group != NONE]
        assert groups == [graph.groups[g] for g in graph.ops.group.tolist() if g != NONE]
        texts = [made.text(int(name)) for name in made.ops.name[mine]]
        assert texts == [graph.text(int(name)) for name in graph.ops.name]


@pytest.mark.parametrize("name", JOBS)
def test_a_setting_is_refused_at_its_own_grain_as_it_is_in_all_detail(name: str) -> None:
    job = asked(name, True)
    detail = job.remembering.source(Grain.OP)
    for (setting,) in plans(name)[0]:
        assert job.refusal(setting) == setting.refusal(detail), str(setting)
