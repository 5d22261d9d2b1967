"""Work among more threads than cores takes longer than by fair shares of the cores."""

from dataclasses import replace

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.machine import Machine
from paceline.graph import Basis, Graph, LaneKind, OpKind
from paceline.graph.scaled import works
from paceline.graph.synthetic import TrainingJob, training
from paceline.predict import Question, predict
from paceline.predict.crowd import crowded, uncrowded
from paceline.strategies import parse

MACHINE = Machine(2.0, crowded_product=1.2)


def recorded(workers: int, cores: float = 2.0) -> Graph:
    """A job whose recording says on how many cores it was made."""
    job = training(TrainingJob(layers=3, workers=workers))
    return replace(job, facts=replace(job.facts, cores=cores))


def worked_ns(graph: Graph) -> int:
    threads = graph.lanes.kind[graph.ops.lane] == LaneKind.THREAD
    return int(graph.ops.dur_ns[works(graph) & threads].sum())


@pytest.mark.parametrize(
    ("threads", "longer"), [(1, 1.0), (2, 1.0), (3, 1.1), (4, 1.2), (9, 1.2), (0.5, 1.0)]
)
def test_it_grows_from_one_thread_on_a_core_to_two(threads: float, longer: float) -> None:
    assert MACHINE.crowded(threads) == pytest.approx(longer)
    assert Machine(2.0).crowded(threads) == 1  # not measured


def test_a_recording_of_too_many_workers_is_relieved_of_it_and_gets_it_back() -> None:
    job = recorded(4)
    alone = uncrowded(job, MACHINE)
    assert worked_ns(alone) == pytest.approx(worked_ns(job) / 1.2, rel=1e-6)
    assert worked_ns(crowded(alone, MACHINE)) == pytest.approx(worked_ns(job), rel=1e-6)
    talks = job.ops.kind == OpKind.COLLECTIVE
    assert (alone.ops.dur_ns[talks] == job.ops.dur_ns[talks]).all()


def test_where_each_worker_has_a_core_nothing_changes() -> None:
    job = recorded(2)
    assert uncrowded(job, MACHINE) is job
    assert crowded(job, MACHINE) is job
    assert crowded(job, None) is job


def test_a_recording_that_does_not_know_its_cores_stays_as_it_is() -> None:
    job = recorded(4, cores=0.0)
    assert uncrowded(job, MACHINE) is job
    assert crowded(job, MACHINE) is job


def test_what_was_not_recorded_is_not_touched() -> None:
    """Codecs are measured while all cores run the same."""
    job = recorded(4)
    mixed = job.ops.basis.copy()
    mixed[::2] = Basis.MEASURED
    job = replace(job, ops=replace(job.ops, basis=mixed))
    made = crowded(job, MACHINE)
    assert (made.ops.dur_ns[::2] == job.ops.dur_ns[::2]).all()
    assert worked_ns(made) > worked_ns(job)


def test_a_prediction_says_what_it_takes_for_it() -> None:
    known = replace(MACHINE, together_ns=1.5e6)
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(4))
    made = predict(recorded(4), [], Cluster(hosts, Link.both_ways(1e9)), Question(machine=known))
    said = [one for one in made.rests_on if "workers than cores" in one or "of them" in one]
    assert said == [
        "work of more workers than cores takes 1.2 times as long",
        "the last of them begins a collective up to 1.5 ms later",
    ]


def carried_ns(job: Graph, workers: int, machine: Machine) -> int:
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(workers))
    cluster = Cluster(hosts, Link.both_ways(1e12))
    change = [parse(f"workers(count={workers})")] if workers != job.world_size else []
    return predict(job, change, cluster, Question(machine=machine)).step_ns


def test_carried_to_more_workers_than_cores_the_step_takes_longer_and_back_as_much_less() -> None:
    plain = Machine(2.0, cpu_ns_per_byte=0.0, turn_ns=0.0, call_ns=0.0, message_ns=0.0)
    known = replace(plain, crowded_product=1.2)
    for start, goal, factor in ((2, 4, 1.2), (4, 2, 1 / 1.2), (2, 2, 1.0), (4, 4, 1.0)):
        one, other = (
            carried_ns(recorded(start), goal, plain),
            carried_ns(recorded(start), goal, known),
        )
        assert other / one == pytest.approx(factor, rel=0.01), (start, goal)
