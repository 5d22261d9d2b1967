"""The loop around a recorded job, at a place where jobs do as they are told to."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from math import exp, sqrt
from pathlib import Path

import msgspec
import pytest

from paceline.cluster import Cluster, Host, Link
from paceline.cluster.files import device
from paceline.errors import GraphError
from paceline.graph.synthetic import TrainingJob, training
from paceline.history import Kind, tuned_entries
from paceline.launch import Process
from paceline.predict import Question, predict
from paceline.record.launch import SETTINGS, Recording
from paceline.report.text.tuned import tuned_lines
from paceline.search import Aim, Batches, Goal, Learning, SearchError
from paceline.strategies import (
    Effect,
    Strategy,
    load_plan,
    made_for,
    name_of,
    parse,
    transformed,
)
from paceline.strategies.accuracy import LearningCost
from paceline.trace.runs import open_run
from paceline.trial import Decision, Ending, Ran, Side, Watching
from paceline.trial.lines import Began, End, Loss, Reason, StepLine, encode, file_of
from paceline.trial.settings import VARIABLE, TrialSettings
from paceline.tune import Tuned, TuneError, TuneRequest, Where, as_recorded, tune
from paceline.tune.doubted import heaviest

pytestmark = pytest.mark.needs("torch")
CRASHED = "ValueError"
SLOW = Cluster(
    tuple(Host(f"host-{rank}", device("epyc-2c")) for rank in range(2)), Link.both_ways(2.5e6)
)
"""Links so slow that plans which send less are sure to be worth a trial."""


@dataclass(frozen=True)
class Unsteady:
    """How many times as fast a plan is whose blocks are now short, now long, in each round."""

    times: float


@dataclass
class Told:
    """A place where the job was recorded before, and whose trials are told: how many times as fast
    each plan is, or that it crashes."""

    recording: Path
    trials: list[float | Unsteady | str]
    tried: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, process: Process, watching: Watching) -> Ran:
        given = process.environment or {}
        if SETTINGS in given:
            folder = Path(json.loads(given[SETTINGS])["folder"])
            for file in self.recording.glob("rank-*"):
                shutil.copy(file, folder)
            return Ran(Ending.ENOUGH)
        return self._trial(msgspec.json.decode(given[VARIABLE], type=TrialSettings))

    def _trial(self, asked: TrialSettings) -> Ran:
        times = self.trials[len(self.tried)]
        self.tried.append(tuple(asked.plan))
        for rank in range(2):
            lines = [Began(rank, 2, asked.blocks)]
            lines += [] if isinstance(times, str) else steps(asked, times)  # type: ignore[arg-type]
            crashed = isinstance(times, str)
            lines.append(End(Reason.EXCEPTION, CRASHED) if crashed else End(Reason.COMPLETE))  # type: ignore[arg-type]
            text = b"".join(encode(line) + b"\n" for line in lines)
            file_of(Path(asked.folder), rank).write_bytes(text)
        return Ran(Ending.ENOUGH)


def steps(asked: TrialSettings, told: float | Unsteady) -> list[StepLine | Loss]:
    """Every step takes 10 ms, and under the plan so many times less; the loss never moves."""
    found: list[StepLine | Loss] = []
    times, sway = (told.times, swaying(asked)) if isinstance(told, Unsteady) else (told, None)
    for place, block in enumerate(asked.blocks):
        planned = block.side is Side.PLAN
        wall = round(1e7 / times * (next(sway) if sway else 1.0) if planned else 1e7)
        for past in range(block.warm + block.steps):
            index = len(found) // 2 + 1
            found += [StepLine(index, wall, wall, place, past >= block.warm), Loss(index, 1.0)]
    return found


def swaying(asked: TrialSettings) -> Iterator[float]:
    """Short, long, short: so far apart that no number of rounds tells the plan from chance."""
    far = exp(0.4 * sqrt(max(block.round for block in asked.blocks) + 1))
    return cycle((1 / far, far))


NAMES = ("fp16", "bf16", "int8", "onebit")


def looped(place: Told, folder: Path) -> Tuned:
    return tuned_for(Goal(Effect.LOSSY, budget_s=10.0, strategies=NAMES), place, folder)


def tuned_for(goal: Goal, place: Told, folder: Path) -> Tuned:
    slow = Where(SLOW, Question())
    return tune(TuneRequest(("train",), folder, goal, where=slow, place=place), {})


def titles(tuned: Tuned) -> list[str]:
    return [line.split()[0] for line in tuned_lines(tuned)]


def test_what_helps_is_kept_and_said_in_six_lines(ddp_recording: Recording, tmp_path: Path) -> None:
    place = Told(ddp_recording.folder, [1.5])
    tuned = looped(place, tmp_path)
    assert tuned.decision is Decision.KEEP
    assert titles(tuned) == ["recorded", "bottleneck", "plan", "predicted", "measured", "verdict"]
    assert "1.50 times as fast (1.50 to 1.50)" in "\n".join(tuned_lines(tuned))
    plan = load_plan(tmp_path / "plan.json")
    assert [tuple(map(str, plan.strategies))] == place.tried
    assert plan.predicted is not None
    assert plan.predicted.low_ns <= 1e7 / 1.5 <= plan.predicted.high_ns
    assert json.loads((tmp_path / "outcome.json").read_text())["decision"] == "keep the plan"


def test_a_plan_that_fits_the_typical_step_alone_is_kept(ddp_recording: Recording) -> None:
    """Of the recorded steps one by one it cannot be told what then updates the parameters."""
    graph = open_run(ddp_recording.folder)
    plan = [parse(text) for text in ("buckets(size_bytes=4096)", "powersgd", "early_update")]
    with pytest.raises(GraphError, match="which ops update the parameters"):
        transformed(graph, plan)
    assert predict(graph, plan, SLOW).step_ns > 0
    assert made_for(graph, plan).world_size == 2


def test_a_trial_tries_a_plan_behind_its_warm_up_and_keeps_it_with_it(
    ddp_recording: Recording, tmp_path: Path
) -> None:
    place = Told(ddp_recording.folder, [1.5])
    tuned = tuned_for(Goal(Effect.LOSSY, budget_s=10.0, strategies=("dgc",)), place, tmp_path)
    assert tuned.decision is Decision.KEEP
    (tried,) = place.tried
    assert ["warmup=0" in text for text in tried] == [name.startswith("dgc") for name in tried]
    assert "warmup=100" in (tmp_path / "plan.json").read_text()


def test_what_a_loop_measured_goes_into_the_history(
    ddp_recording: Recording, tmp_path: Path
) -> None:
    tuned = looped(Told(ddp_recording.folder, [1.5]), tmp_path)
    recording, plain, trial = tuned_entries(tuned)
    assert [e.kind for e in (recording, plain, trial)] == [Kind.RECORDING, Kind.VERDICT, Kind.TRIAL]
    assert len({each.job for each in (recording, plain, trial)}) == 1
    assert (plain.strategies, trial.strategies) == ((), tuple(place_of(tuned)))
    assert plain.measured is not None
    assert trial.measured is not None
    assert plain.measured.step_ns == round(1.5 * trial.measured.step_ns, -1)
    assert trial.outcome.startswith("kept: faster")
    assert trial.predicted is not None
    assert trial.predicted.leans is not None


@dataclass(frozen=True)
class Steep:
    """A curve on which a point of accuracy costs so many times the batches."""

    target: float = 0.8
    best: float = 0.7
    a_point: float = 0.05

    def batches(self, lost: float, error: float) -> Batches | None:
        middle = 1000 * (1 + self.a_point * 100 * lost)
        return Batches(middle, 0.9 * middle, 1.1 * middle)


@pytest.mark.parametrize(("times", "decision"), [(1.5, Decision.KEEP), (1.04, Decision.STAY)])
def test_a_plan_that_learns_worse_must_gain_more_than_it_loses(
    times: float, decision: Decision, ddp_recording: Recording, tmp_path: Path
) -> None:
    """It needs a tenth more batches, so that a step that is a little faster is no gain."""
    learning = Learning(Steep(a_point=0.05), cost=lambda _: LearningCost(2.0, 0.0, 3))
    goal = Goal(Effect.LOSSY, budget_s=10.0, strategies=NAMES, aim=Aim.ACCURACY, learning=learning)
    place = Told(ddp_recording.folder, [times] * 3)
    tuned = tuned_for(goal, place, tmp_path)
    assert tuned.decision is decision
    trial = tuned.trials[-1]
    assert trial.expected.longer == pytest.approx(1.1)
    assert trial.outcome.gain.times == pytest.approx(times / 1.1, rel=0.01)
    assert "times as soon at the target" in "\n".join(tuned_lines(tuned))
    json.loads((tmp_path / "outcome.json").read_text())
    if decision is Decision.KEEP:
        plan = load_plan(tmp_path / "plan.json")
        assert plan.predicted.low_ns <= 1e7 / times <= plan.predicted.high_ns


def place_of(tuned: Tuned) -> list[str]:
    return [str(change) for change in tuned.trials[-1].outcome.plan]


def test_after_a_crash_a_search_without_that_plan_finds_another(
    ddp_recording: Recording, tmp_path: Path
) -> None:
    place = Told(ddp_recording.folder, [CRASHED, 1.4])
    tuned = looped(place, tmp_path)
    assert tuned.decision is Decision.KEEP
    first, second = ({text.split("(")[0] for text in plan} for plan in place.tried)
    assert not first & second
    assert titles(tuned).count("tried") == 1
    assert any("crashed, rank 0: ValueError" in line for line in tuned_lines(tuned))


def test_after_a_slower_plan_a_search_without_what_it_rests_on_finds_another(
    ddp_recording: Recording, tmp_path: Path
) -> None:
    place = Told(ddp_recording.folder, [0.8, 1.4])
    tuned = looped(place, tmp_path)
    assert tuned.decision is Decision.KEEP
    first, second = ({text.split("(")[0] for text in plan} for plan in place.tried)
    assert not first & second


@pytest.mark.parametrize(("times", "trials"), [(0.9, 2), (1.2, 1)])
def test_a_plan_behind_the_job_is_left_though_chance_may_have_made_it(
    times: float, trials: int, ddp_recording: Recording, tmp_path: Path
) -> None:
    place = Told(ddp_recording.folder, [Unsteady(times), 1.4])
    tuned = looped(place, tmp_path)
    assert tuned.trials[0].outcome.decision is Decision.INCONCLUSIVE
    assert len(tuned.trials) == trials
    assert (tuned.kept is not None) == (trials == 2)


def test_of_a_plan_that_did_not_help_the_part_is_doubted_on_which_most_rests() -> None:
    plan = tuple(map(parse, ("buckets(size_bytes=4096)", "priority", "overlap_update")))
    steps_ns = {"buckets": 90.0, "priority": 80.0, "overlap_update": 85.0}

    def without(rest: Sequence[Strategy]) -> float:
        (left_out,) = steps_ns.keys() - {name_of(type(change)) for change in rest}
        return steps_ns[left_out]

    def refused(rest: Sequence[Strategy]) -> float:
        if "priority" not in map(str, rest):
            raise GraphError("nothing goes without it")
        return without(rest)

    assert heaviest(plan, without) == plan[:1]
    assert heaviest(plan, refused) == plan[1:2]
    assert heaviest(plan[2:], refused) == plan[2:]


def test_where_all_are_slower_the_job_is_left_as_it_was(
    ddp_recording: Recording, tmp_path: Path
) -> None:
    (tmp_path / "plan.json").write_text("of an earlier loop")
    place = Told(ddp_recording.folder, [0.5, 0.6, 0.7])
    tuned = looped(place, tmp_path)
    assert 1 <= len(place.tried) <= 3
    assert tuned.decision is Decision.STAY
    assert tuned.kept is None
    *_, verdict = tuned_lines(tuned)
    assert "slower" in verdict
    assert "the job is left as it was" in verdict
    assert not (tmp_path / "plan.json").exists(), "no earlier plan is taken for this one's"


def test_a_job_that_nothing_is_predicted_to_help_is_not_tried(
    ddp_recording: Recording, tmp_path: Path
) -> None:
    place = Told(ddp_recording.folder, [])
    goal = Goal(Effect.EXACT, budget_s=5.0, strategies=("keep_gathered",))
    tuned = tune(TuneRequest(("train",), tmp_path, goal, place=place), {})
    assert tuned.decision is Decision.STAY
    assert any("none is predicted to help" in line for line in tuned_lines(tuned))


def test_a_recording_says_how_fast_its_own_links_were(ddp_recording: Recording) -> None:
    graph = open_run(ddp_recording.folder)
    where = as_recorded(graph)
    assert where.cluster is not None
    assert where.cluster.workers == 2
    assert predict(graph, (), where.cluster, where.question).step_ns > 0
    assert as_recorded(training(TrainingJob(workers=1))).cluster is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget_s": 0.0}, "a budget of 0 s"),
        ({"hang_s": -1.0}, "a time without a step of -1 s"),
        ({"trials": 0}, "a number of trials of 0"),
    ],
)
def test_a_loop_without_time_or_trials_is_refused(
    given: dict[str, float], said: str, tmp_path: Path
) -> None:
    with pytest.raises(TuneError, match=said):
        TuneRequest(("train",), tmp_path, **given)


def test_a_limit_that_no_plan_holds_says_what_is_largest_and_keeps_the_recording(
    ddp_recording: Recording, tmp_path: Path
) -> None:
    goal = Goal(memory_limit_bytes=1000, budget_s=10.0, strategies=("zero1",))
    place = Told(ddp_recording.folder, [])
    with pytest.raises(SearchError, match=r"smallest peak is [\d,]+ bytes .* of which \w+ are the"):
        tune(TuneRequest(("train",), tmp_path, goal, place=place), {})
    assert json.loads((tmp_path / "outcome.json").read_text())["recorded"]["workers"] == 2
    assert place.tried == []


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        (Ran(Ending.HUNG), "no step was recorded within"),
        (Ran(Ending.ITSELF), "with too few optimizer steps"),
        (Ran(Ending.ITSELF, 1, "ImportError"), "failed before a step was recorded. ImportError"),
    ],
)
def test_a_job_that_brings_no_steps_is_told_why(ran: Ran, said: str, tmp_path: Path) -> None:
    def place(process: Process, watching: Watching) -> Ran:
        return ran

    with pytest.raises(TuneError, match=said):
        tune(TuneRequest(("train",), tmp_path, place=place), {})
