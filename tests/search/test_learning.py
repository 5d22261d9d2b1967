"""Time to an accuracy as a search's goal: what is faster and learns worse must earn it back."""

from dataclasses import dataclass, replace

import pytest

from paceline.cluster import Cluster
from paceline.graph import Graph
from paceline.predict import Question
from paceline.search import Aim, Batches, Goal, Learning, SearchError, search
from paceline.search.learning import reached
from paceline.strategies import Effect, parse
from paceline.strategies.accuracy import LearningCost, learning_cost_of, learning_costs

FP16, ONEBIT = parse("fp16"), parse("onebit")


@dataclass(frozen=True)
class Line:
    """A curve on which each point of accuracy takes so many batches, up to 90 %."""

    target: float = 0.8
    best: float = 0.7
    batches_a_point: float = 100.0

    def batches(self, lost: float, error: float) -> Batches | None:
        wanted = 100 * (self.target + lost)
        if wanted > 90:
            return None
        middle, off = self.batches_a_point * wanted, self.batches_a_point * 100 * error
        return Batches(middle, middle - off, middle + off)


def goal(line: Line, noise: float | None = None, **costs: float) -> Goal:
    """Known are the costs of these strategies, in points."""
    found = {name: LearningCost(points, 0.1, 3) for name, points in costs.items()}
    learning = Learning(line, noise, lambda change: found.get(str(change).partition("(")[0]))
    return Goal(Effect.RELAXED, aim=Aim.ACCURACY, learning=learning, budget_s=20.0)


def asked(given: Goal, *names: str) -> Goal:
    return replace(given, strategies=names)


def test_an_exact_plan_needs_as_many_batches_as_the_job() -> None:
    learning = Learning(Line())
    assert learning.expected((parse("priority"),), 1.0) == learning.expected((), 1.0)


def test_costs_of_parts_add_up_and_a_gain_counts_as_none() -> None:
    known = goal(Line(), fp16=-1.0, onebit=2.0).learning
    assert known is not None
    assert known.expected((FP16, ONEBIT), 1.0).points == 2.0
    assert known.expected((FP16, ONEBIT), 1.0).batches.middle == pytest.approx(8200)
    assert known.expected((FP16,), 1.0).batches.middle == pytest.approx(8000)


def test_of_a_plan_that_is_not_known_nothing_is_hoped() -> None:
    assert Learning(Line()).expected((parse("batch(factor=2.0)"),), 2.0).batches is None
    known = goal(Line(), fp16=0.1).learning
    assert known.expected((FP16, ONEBIT), 1.0).batches is None


def test_twice_the_batch_needs_samples_by_the_noise_scale() -> None:
    """Far below the noise scale none more, far above it twice as many."""
    few, many = (Learning(Line(), noise) for noise in (0.001, 1000.0))
    plan = (parse("batch(factor=2.0)"),)
    assert few.expected(plan, 2.0).growth == pytest.approx(2.0, rel=0.01)
    assert many.expected(plan, 2.0).growth == pytest.approx(1.0, rel=0.01)


def test_a_lossy_plan_is_taken_only_while_it_earns_its_cost_back(job: Graph, lan: Cluster) -> None:
    cheap = search(job, lan, Question(), asked(goal(Line(), fp16=0.01), "fp16"))
    dear = search(job, lan, Question(), asked(goal(Line(batches_a_point=1e6), fp16=9.9), "fp16"))
    assert cheap.best.plan == (FP16,)
    assert cheap.best.batch_ns < cheap.unchanged.batch_ns
    assert cheap.best.reached.seconds < cheap.unchanged.reached.seconds
    assert cheap.best.reached.low_s < cheap.best.reached.seconds < cheap.best.reached.high_s
    assert "points of accuracy where it was measured" in cheap.best.reasons[0]
    slower = search(job, lan, Question(), asked(goal(Line(), fp16=9.9), "fp16")).best
    gain = cheap.unchanged.batch_ns / cheap.best.batch_ns
    assert (slower.plan == (FP16,)) == (gain > 89.9 / 80)
    assert dear.best.plan == slower.plan


def test_what_would_never_get_there_is_not_taken(job: Graph, lan: Cluster) -> None:
    found = search(job, lan, Question(), asked(goal(Line(target=0.89), fp16=2.0), "fp16"))
    assert found.best.plan == ()


def test_what_is_not_known_is_refused_with_the_reason(job: Graph, lan: Cluster) -> None:
    names = ("fp16", "onebit", "batch", "priority")
    found = search(job, lan, Question(), asked(goal(Line(), fp16=0.1), *names))
    why = {str(change).partition("(")[0]: reason for change, reason in found.refused}
    assert "was not measured" in why["onebit"]
    assert "paceline learn noise" in why["batch"]
    assert "fp16" not in why


def test_a_target_out_of_reach_says_what_was_reached(job: Graph, lan: Cluster) -> None:
    with pytest.raises(SearchError, match=r"reaches 0.95.*got to 0.700"):
        search(job, lan, Question(), asked(goal(Line(target=0.95), fp16=0.0), "fp16"))


def test_the_goal_needs_a_curve() -> None:
    with pytest.raises(SearchError, match="needs a target and a learning curve"):
        Goal(aim=Aim.ACCURACY)


def test_errors_of_the_curve_and_of_the_step_add_in_squares() -> None:
    learned = Learning(Line()).expected((), 1.0)
    sure = reached(learned, 1e6, (1.0, 1.0))
    assert (sure.low_s, sure.high_s) == (sure.seconds, sure.seconds)
    unsure = reached(learned, 1e6, (0.9, 1.2))
    assert unsure.low_s == pytest.approx(0.9 * unsure.seconds)
    assert unsure.high_s == pytest.approx(1.2 * unsure.seconds)


def test_measured_costs_come_with_the_package() -> None:
    assert len(learning_costs()) > 10
    cost = learning_cost_of(ONEBIT)
    assert cost is not None
    assert cost.seeds > 1
    assert learning_cost_of(parse("local_sgd(period=1000)")) is None
