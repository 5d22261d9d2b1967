"""Rounds as graphs: the shape of a round, and how clusters and stragglers change its time."""

from dataclasses import replace

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.machine import Machine
from paceline.graph import Collective, OpKind
from paceline.learn import (
    LearnError,
    LearnRun,
    Meeting,
    forecast,
    ranked,
    reach,
    round_time,
    rounds_as_graph,
)
from paceline.learn.record import ClientWork, Judged, Round, Trip
from paceline.measure import Calibration, Handling, Sweep
from paceline.predict import Question
from paceline.report.text.learn import forecast_notes

MB = 1_000_000


def cluster(workers: int, mbit: float = 100.0) -> Cluster:
    hosts = tuple(Host(f"h{n}", Device("core")) for n in range(workers))
    return Cluster(hosts, Link.both_ways(mbit * 1e6 / 8))


def drawn(meeting: Meeting = Meeting.SERVER, lag: int = 0, work_s: float = 0.1) -> LearnRun:
    """Two clients, a megabyte each way, a tenth of a second of work."""

    def trips() -> tuple[Trip, ...]:
        if meeting is Meeting.SERVER:
            return (
                Trip(-1, (0,), MB), Trip(-1, (1,), MB), Trip(0, (-1,), MB), Trip(1, (-1,), MB),
            )  # fmt: skip
        return (Trip(0, (0, 1), MB), Trip(1, (0, 1), MB))

    rounds = tuple(
        Round(n, tuple(ClientWork(c, 100, 100.0, work_s) for c in (0, 1)), trips())
        for n in range(6)
    )
    judged = tuple(Judged(n, 0.5 + 0.08 * n, 4 * MB * n) for n in range(6))
    return LearnRun("fedavg()", "Equal()", 0.0, 2, 1, meeting, lag, 1000, 1, "toy", rounds, judged)


def test_clients_wait_for_the_server_and_the_server_for_them() -> None:
    graph = rounds_as_graph(drawn(), 2)
    names = [op.name for op in graph if op.rank == 1]
    first = names[: names.index("merge") + 1]
    assert "hand out" in first
    assert "client 1" in first
    ends = round_time(drawn(), cluster(2))
    assert ends.mean_s == pytest.approx(0.1 + 2 * 0.08, rel=0.02)  # work, and both ways at 100 Mbit


def test_a_round_of_one_rank_is_its_clients_work_alone() -> None:
    assert round_time(drawn(), cluster(1)).mean_s == pytest.approx(0.2, rel=0.01)


def test_a_mean_is_an_all_reduce() -> None:
    graph = rounds_as_graph(drawn(Meeting.MEAN), 2)
    calls = [op for op in graph if op.kind is OpKind.COLLECTIVE]
    assert {op.collective for op in calls} == {Collective.ALL_REDUCE}
    assert {op.size_bytes for op in calls} == {MB}


def test_calls_take_what_the_calibration_found() -> None:
    slow = Sweep((1e6, 2e6, 4e6), (1.001e9, 1.002e9, 1.004e9))
    line = Sweep((1e6, 2e6, 4e6), (1e6, 2e6, 4e6))
    made = Calibration("core", 1, 2, line, line, line, slow, None)
    plain = round_time(drawn(Meeting.MEAN), cluster(2)).mean_s
    there = round_time(drawn(Meeting.MEAN), cluster(2), Question(calibration=made)).mean_s
    assert there > plain + 0.5


@pytest.mark.parametrize(("mbit", "stalled"), [(1_500.0, 2 / 3), (1_000.0, 0.5), (100.0, 0.0)])
def test_stalled_messages_lengthen_a_mean_unless_their_links_take_longer(
    mbit: float, stalled: float
) -> None:
    """Two workers on two cores: a ring of four messages behind one another, of a quarter of a
    megabyte each, which takes the fastest link a third of a tick, and the slowest five ticks."""
    line = Sweep((1e6, 2e6, 4e6), (1e6, 2e6, 4e6))
    made = Calibration("core", 2, 2, line, line, line, None, None, handling=Handling())
    stalls = replace(made, handling=Handling(stall_ns=5e6))
    shared = Machine(2.0)
    plain, there = (
        round_time(
            drawn(Meeting.MEAN), cluster(2, mbit), Question(machine=shared, calibration=each)
        )
        for each in (made, stalls)
    )
    assert there.mean_s - plain.mean_s == pytest.approx(4 * 5e-3 * stalled, rel=0.01)


def test_a_message_that_travels_behind_a_round_hides_in_its_work() -> None:
    waits, hides = (round_time(drawn(Meeting.ALL, lag), cluster(2)).mean_s for lag in (0, 1))
    assert waits == pytest.approx(0.18, rel=0.03)
    assert hides == pytest.approx(0.1, rel=0.03)


@pytest.mark.parametrize("meeting", list(Meeting))
def test_a_slower_link_never_shortens_a_round(meeting: Meeting) -> None:
    run = drawn(meeting)
    times = [round_time(run, cluster(2, mbit)).mean_s for mbit in (10, 50, 1000)]
    assert times == sorted(times, reverse=True)


def test_messages_to_the_server_share_its_link() -> None:
    """Three clients send at once to a fourth: the server's link is full for as long as all."""
    run = drawn()
    ways = [(Trip(-1, (n,), 100), Trip(n, (-1,), MB)) for n in (1, 2, 3)]
    trips = tuple(trip for both in ways for trip in both)
    works = tuple(ClientWork(n, 100, 100.0, 0.1) for n in (1, 2, 3))
    rounds = tuple(replace(each, works=works, trips=trips) for each in run.rounds)
    found = round_time(replace(run, rounds=rounds, clients=4), cluster(4))
    assert found.mean_s == pytest.approx(0.1 + 3 * 0.08, rel=0.03)


def test_stragglers_show_in_the_slowest_rounds() -> None:
    run = drawn()
    slow = ClientWork(1, 100, 100.0, 0.5)
    rounds = tuple(
        replace(each, works=(each.works[0], slow if n == 3 else each.works[1]))
        for n, each in enumerate(run.rounds)
    )
    calm, rough = round_time(run, cluster(2)), round_time(replace(run, rounds=rounds), cluster(2))
    assert calm.slow_s == pytest.approx(calm.mean_s, rel=0.01)
    assert rough.slow_s > 1.2 * rough.mean_s


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(LearnError, match="too few"):
        rounds_as_graph(replace(drawn(), rounds=drawn().rounds[:2]), 2)


def test_time_to_a_target_is_rounds_times_the_time_of_one() -> None:
    found = forecast([drawn()], 0.70, cluster(2))
    assert found.reach.observed
    assert found.reach.rounds == pytest.approx(3.5, abs=0.6)
    assert found.seconds == pytest.approx(found.reach.rounds * found.round.mean_s)
    assert found.low_s < found.seconds < found.high_s


def test_a_target_that_is_never_reached_says_what_was() -> None:
    flat = replace(drawn(), judged=tuple(Judged(n, 0.6, 0) for n in range(20)))
    found = reach([flat], 0.9)
    assert found.rounds is None
    assert found.best == pytest.approx(0.6)
    assert forecast([flat], 0.9, cluster(2)).seconds is None


def test_a_curve_that_ended_early_is_carried_on() -> None:
    law = [0.9 - 0.6 * (n + 2) ** -0.7 for n in range(200)]
    run = replace(drawn(), judged=tuple(Judged(n, law[n], 0) for n in range(30)))
    found = reach([run], law[99])
    assert not found.observed
    assert 0.8 * 100 < found.rounds < 1.25 * 100
    assert found.low <= found.rounds <= found.high


def test_algorithms_are_ranked_by_when_they_get_there() -> None:
    quick = replace(drawn(Meeting.MEAN), algorithm="local_sgd()")
    never = replace(drawn(), algorithm="gaia()", judged=(Judged(0, 0.3, 0),))
    order = [one.algorithm for one in ranked([never, drawn(), quick], 0.7, cluster(2))]
    assert order == ["local_sgd()", "fedavg()", "gaia()"]


def test_runs_of_two_models_are_two_forecasts() -> None:
    batch, group = (replace(drawn(), model=model) for model in ("batch", "group"))
    worse = replace(batch, judged=tuple(replace(j, accuracy=j.accuracy / 2) for j in batch.judged))
    found = ranked([worse, group], 0.7, cluster(2))
    assert [one.asked["model"] for one in found] == ["group", "batch"]
    assert found[0].seconds == forecast([group], 0.7, cluster(2)).seconds
    assert [one.runs for one in found] == [1, 1]
    assert [n.partition(" ")[0] for n in forecast_notes(found)][:2] == ["fedavg(),", "fedavg(),"]
    with pytest.raises(LearnError, match="more than their seeds"):
        forecast([worse, replace(group, seed=2)], 0.7, cluster(2))


def test_rounds_behind_the_target_do_not_count() -> None:
    """A model that grows: its later rounds take ten times as long and send ten times as much."""
    run, few = drawn(work_s=0.1), 30
    times = [1.0] * few + [10.0] * few
    rounds = tuple(
        Round(n, tuple(replace(w, cpu_s=w.cpu_s * t) for w in run.rounds[0].works), ())
        for n, t in enumerate(times)
    )
    judged = tuple(Judged(n, 0.3 + 0.01 * n, int(MB * sum(times[: n + 1]))) for n in range(60))
    found = forecast([replace(run, rounds=rounds, judged=judged)], 0.5, cluster(2))
    assert found.reach.rounds == pytest.approx(21, abs=1)
    assert found.seconds == pytest.approx(21 * 0.1, rel=0.1)
    assert found.sent_bytes == pytest.approx(21 * MB, rel=0.1)


def test_few_judgements_are_not_said_to_lead_nowhere() -> None:
    short = replace(drawn(), judged=drawn().judged[:2])
    (said, *_) = forecast_notes([forecast([short], 0.9, cluster(2))])
    assert "a curve of 2 judgements cannot be carried on" in said
    flat = replace(drawn(), judged=tuple(Judged(n, 0.6, 0) for n in range(20)))
    (said,) = forecast_notes([forecast([flat], 0.9, cluster(2))])
    assert "got to 0.600, and their curve does not lead there" in said


def test_every_seed_weighs_alike() -> None:
    """One has reached the target, of the other nothing can be said."""
    short = replace(drawn(), seed=2, judged=drawn().judged[:2])
    found = reach([drawn(), short], 0.7)
    assert not found.observed
    assert found.high is None


def test_more_workers_than_clients_are_refused() -> None:
    with pytest.raises(LearnError, match="3 workers cannot carry 2 clients"):
        round_time(drawn(), cluster(3))


def test_a_target_is_an_accuracy() -> None:
    with pytest.raises(LearnError, match="between 0 and 1"):
        forecast([drawn()], 85.0, cluster(2))
