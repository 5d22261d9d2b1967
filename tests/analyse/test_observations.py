"""Each rule says its sentence when its figures matter, and nothing when they do not."""

from dataclasses import replace

from paceline.analyse import observations as rules
from paceline.analyse.efficiency import Efficiency, Gaps, Reached
from paceline.analyse.observations import JobFigures, observed
from paceline.analyse.structure import Structure, watched
from paceline.analyse.usage import Usage
from paceline.replay.beside import Beside
from paceline.replay.memory_by_rank import RankPeak

QUIET = Usage(
    step_ns=100e6, compute=0.95, communication=0.0, hidden=0.0, data=0.01, queued=0.0, rest=0.04,
    update=0.05, operators=1000, cpu=0.9, cores=2,
)  # fmt: skip


def seen(**changed: object) -> JobFigures:
    return JobFigures(replace(QUIET, **changed))  # type: ignore[arg-type]


def a_class(name: str, share: float, of_peak: float = 0.5) -> Reached:
    took = round(share * 1e6)
    return Reached(name, 10, took, share, 1.0, 0.0, 1e9, 1e9, 0.9, of_peak, took // 2, 0.0)


def efficiency(*classes: Reached, dtype: str = "float32") -> Efficiency:
    rates = {"float32": 1e11, "bfloat16": 3e11}
    return Efficiency("here", "", classes, (), Gaps(0, 0, 1), Beside(0, 0), 0.3, dtype, 1.0, rates)


def test_a_quiet_job_only_says_where_its_step_goes() -> None:
    assert [each.text for each in observed(JobFigures(QUIET))] == ["the step is 95 % computing"]


def test_what_the_step_is_spent_on_comes_in_order() -> None:
    said = rules.bound_by(seen(compute=0.3, communication=0.6, rest=0.05))
    assert said == (
        "the step is 60 % exposed communication, 30 % computing, 5 % the host between operators"
    )


def test_loading_is_told_from_a_tenth_of_the_step_on() -> None:
    assert rules.loads(seen(data=0.09)) is None
    assert "loading takes 40 % of the step" in str(rules.loads(seen(data=0.4)))


def test_exposed_communication_is_told_with_what_is_hidden() -> None:
    assert rules.waits(seen(communication=0.05)) is None
    said = str(rules.waits(seen(communication=0.3, hidden=0.25)))
    assert "takes 30 % of the step" in said
    assert "hides 25 %" in said


def test_waiting_for_a_core_is_told_apart_from_the_host() -> None:
    assert rules.queues(seen(queued=0.09)) is None
    assert str(rules.queues(seen(queued=0.5))).startswith(
        "threads were ready and had no core for 50 % of the step: more threads than the 2 cores"
    )
    assert "50 % waiting for a core" in str(rules.bound_by(seen(compute=0.4, queued=0.5)))


def test_an_optimizer_of_a_third_of_the_work_is_told() -> None:
    assert rules.updates(seen(update=0.19)) is None
    assert rules.updates(seen(update=0.33)) == "the optimizer is 33 % of the work"


def test_idle_cores_are_told_where_they_are_counted() -> None:
    assert rules.leaves_cores(seen(cpu=0.9)) is None
    assert rules.leaves_cores(seen(cpu=None)) is None
    assert rules.leaves_cores(seen(cpu=0.48)) == "the job uses 48 % of 2 cores"


def test_many_small_operators_are_told_with_their_mean() -> None:
    assert rules.dispatches(seen(operators=1000)) is None
    said = str(rules.dispatches(seen(operators=10_000, compute=0.8)))
    assert said.startswith("a step has 10,000 operators of 8 us each")


def test_the_structure_that_makes_the_peak_is_named_with_its_op() -> None:
    parts = {"weights": 300_000_000, "activations": 900_000_000}
    held = Structure(0, 1_200_000_000, parts, "aten::mm", "backward", "layers.3")
    said = rules.held_by(JobFigures(QUIET, structure=held))
    assert said == (
        "activations are 75 % of the memory peak of 1.2 GB, reached at aten::mm (backward, "
        "layers.3)"
    )


def test_steps_that_differ_say_which_of_them_was_watched() -> None:
    peak = RankPeak(0, 8, {"weights": 8}, {}, 0, "mm", "forward", "", step=12, other_ops=0.02)
    held = Structure(0, 8, {"weights": 8}, "mm", "forward", "", watched(peak))
    assert rules.differs(JobFigures(QUIET, structure=held)) == (
        "memory's sizes are those of step 12: recorded steps run up to 2 % other operators, and "
        "may hold more"
    )
    assert rules.differs(JobFigures(QUIET, structure=replace(held, watched=""))) is None


def test_products_are_held_against_the_peak_of_their_type() -> None:
    found = efficiency(a_class("convolution", 0.6, 0.4), a_class("pointwise", 0.4))
    said = rules.reaches(JobFigures(QUIET, found))
    assert said == (
        "convolution products run at 40 % of the device's rate; over the step the job uses 30 % "
        "of its float32 rate"
    )
    assert rules.reaches(JobFigures(QUIET, efficiency(a_class("pointwise", 1.0)))) is None


def test_a_step_of_memory_bound_operators_is_told() -> None:
    mostly = efficiency(a_class("pointwise", 0.6), a_class("matrix", 0.4))
    assert "60 % of operators' time is no product" in str(
        rules.moves_memory(JobFigures(QUIET, mostly))
    )
    assert rules.moves_memory(JobFigures(QUIET, efficiency(a_class("matrix", 1.0)))) is None


def test_a_faster_type_is_offered_to_float32_products_alone() -> None:
    wide = efficiency(a_class("matrix", 1.0))
    said = rules.computes_wide(JobFigures(QUIET, wide))
    assert said == "products are float32; this device's bfloat16 rate is 3.0 times as high"
    lower = efficiency(a_class("matrix", 1.0), dtype="bfloat16")
    assert rules.computes_wide(JobFigures(QUIET, lower)) is None
