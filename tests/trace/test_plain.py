"""Which steps say how long a job takes when nobody looks."""

from paceline.record.sidecar import Counts, Mode, RecordedHost, Sidecar, Step
from paceline.trace.plain import plain_runs, plain_steps


def told(*steps: tuple[int, str, int]) -> Sidecar:
    """Steps of so many ns, observed in this way, with so many page faults."""
    made = [
        Step(index=i, begin_ns=0, end_ns=length, mode=Mode(mode), faults=faults)
        for i, (length, mode, faults) in enumerate(steps)
    ]
    return Sidecar(records=list(made), truncated=False)


def recorded(before_ns: int, faults_before: int, after_ns: int, faults_after: int) -> Sidecar:
    return told(
        (before_ns, "plain", faults_before), (99, "recorded", 0), (after_ns, "plain", faults_after)
    )


def test_only_steps_without_instruments_count_and_ranks_are_averaged() -> None:
    assert plain_steps(
        [told((10, "plain", 0), (20, "plain", 0)), told((30, "plain", 0), (40, "plain", 0))]
    ) == [20, 30]
    assert plain_steps([told((10, "recorded", 0))]) == []


def test_steps_after_the_recorded_ones_count_too() -> None:
    assert plain_steps([recorded(10, 1000, 12, 990)]) == [10, 12]
    assert plain_steps([recorded(10, 0, 12, 5000)]) == [10, 12]


def test_steps_that_the_recording_spared_page_faults_are_not_the_jobs_own() -> None:
    assert plain_steps([recorded(10, 1000, 8, 2)]) == [10]


def test_few_steps_with_many_page_faults_are_spared_too() -> None:
    """In the middle of them there is none before and none behind."""
    before = [(10, "plain", 0), (10, "plain", 0), (16, "plain", 4000)]
    after = [(10, "plain", 0)] * 3
    assert plain_steps([told(*before, (99, "recorded", 0), *after)]) == [10, 10, 16]


def test_where_one_rank_was_spared_faults_no_rank_gives_its_later_steps() -> None:
    ranks = [recorded(10, 1000, 8, 2), recorded(20, 1000, 18, 1000)]
    assert plain_steps(ranks) == [15]


def on(device: str, facts: Sidecar) -> Sidecar:
    host = RecordedHost(rank=0, world_size=1, device=device)
    return Sidecar(records=[host, *facts.records], truncated=False)


def test_on_a_gpu_the_profiler_stays_attached_and_later_steps_are_not_the_jobs_own() -> None:
    facts = recorded(17, 0, 30, 0)
    assert plain_steps([on("NVIDIA H200", facts)]) == [17]
    assert plain_steps([on("cpu", facts)]) == [17, 30]
    after = told((99, "recorded", 0), (30, "plain", 0))
    assert plain_steps([on("NVIDIA H200", after)]) == [30]


def test_where_no_step_came_before_those_after_are_all_there_is() -> None:
    assert plain_steps([told((99, "recorded", 0), (8, "plain", 0))]) == [8]


def test_steps_in_which_the_machine_slept_are_not_the_jobs_own() -> None:
    slept = Step(index=1, begin_ns=0, end_ns=900, mode=Mode.PLAIN, counts=Counts(slept_ns=800))
    steps = [Step(index=0, begin_ns=0, end_ns=10, mode=Mode.PLAIN), slept]
    assert plain_steps([Sidecar(records=steps, truncated=False)]) == [10]


def test_what_plain_steps_ran_is_known_only_where_every_rank_counted() -> None:
    counted, uncounted = (
        Sidecar(
            records=[Step(index=0, begin_ns=0, end_ns=10, mode=Mode.PLAIN, counts=counts)],
            truncated=False,
        )
        for counts in (Counts(run_ns=6, delay_ns=4), None)
    )
    assert plain_runs([counted, counted]) == [6]
    assert plain_runs([counted, uncounted]) == []
