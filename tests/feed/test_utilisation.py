"""Accelerator utilisation, and what a wait is put down to."""

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.feed import Batch, Description, FeedError, FeedRun, Loading, utilisation
from paceline.feed.drawn import graph_of
from paceline.feed.reader import Cost, Damaged
from paceline.feed.run import Computing, HandOver, load, save
from paceline.graph.facts import Stored
from paceline.predict.input import fed

GIVEN = Description("drawn", "raw", samples=100, size_bytes=1000, batch=1)


def run(*batches: Batch, compute_ns: int = 100, **settings: object) -> FeedRun:
    return FeedRun(GIVEN, Loading(**settings), batches, compute_ns, cores=2)


def alone(count: int, blocked: int, work: int, compute: int, computing: str = "sleep") -> FeedRun:
    """A thread that loads by itself: waits for storage, decodes, computes."""
    batches, at = [], 0
    for _ in range(count):
        got = at + blocked + work
        cost = Cost(blocked, 0, work, work, read_bytes=1000)
        batches.append(Batch(at, got, got + compute, at, got, -1, cost, 0))
        at = got + compute
    how = Loading(computing=Computing(computing))
    return FeedRun(GIVEN, how, tuple(batches), compute, cores=2)


def test_utilisation_is_computing_over_running_without_the_first_step() -> None:
    found = utilisation(alone(5, blocked=20, work=80, compute=300))
    assert found.computing == pytest.approx(0.75)
    assert found.reading == pytest.approx(0.05)
    assert found.decoding == pytest.approx(0.2)
    assert found.steps == 4
    assert sum(found.shares.values()) == pytest.approx(1)


def test_a_wait_is_split_by_what_was_done_to_the_batch_at_the_time() -> None:
    """Asked at 100, begun at 140, ready at 180 after 10 of reading and 30 of decoding, got at
    190."""
    cost = Cost(read_ns=10, decode_ns=30)
    first = Batch(0, 0, 100, 0, 0, 0, Cost(), 0)
    found = utilisation(run(first, Batch(100, 190, 290, 140, 180, 0, cost, 0)))
    whole = 190
    assert found.waiting * whole == pytest.approx(40)
    assert found.reading * whole == pytest.approx(10)
    assert found.decoding * whole == pytest.approx(30)
    assert found.handing_over * whole == pytest.approx(10)
    assert found.computing * whole == pytest.approx(100)


def test_a_batch_that_lay_ready_costs_its_hand_over_alone() -> None:
    first = Batch(0, 0, 100, 0, 0, 0, Cost(), 0)
    ready = Batch(100, 105, 205, 0, 60, 0, Cost(read_ns=40, decode_ns=20), 0)
    found = utilisation(run(first, ready))
    assert found.handing_over == pytest.approx(5 / 105)
    assert found.reading == found.decoding == found.waiting == 0


def test_computing_that_neighbours_slow_is_told_apart() -> None:
    first = Batch(0, 0, 100, 0, 0, 0, Cost(), 0)
    found = utilisation(run(first, Batch(100, 100, 300, 0, 0, 0, Cost(), 0), compute_ns=100))
    assert found.computing == pytest.approx(0.5)
    assert found.slowed == pytest.approx(0.5)


def test_one_step_is_no_run() -> None:
    with pytest.raises(FeedError, match="the first does not count"):
        utilisation(alone(1, 10, 10, 10))


def test_a_run_is_kept_whole(tmp_path: Path) -> None:
    made = run(
        Batch(0, 1, 2, 0, 1, 0, Cost(1, 2, 3, 4, 5), 6, 7, 8, (Damaged("a.bin", 3, "short"),)),
        workers=1,
    )
    save(made, tmp_path / "feed.json")
    assert load(tmp_path / "feed.json") == made
    assert made.damaged == {"a.bin": 1}
    (tmp_path / "feed.json").write_text("{}")
    with pytest.raises(FeedError, match="is no run"):
        load(tmp_path / "feed.json")


@pytest.mark.parametrize("computing", ["sleep", "real"])
def test_a_drawn_run_has_the_utilisation_that_was_measured(computing: str) -> None:
    made = alone(6, blocked=2000, work=8000, compute=30000, computing=computing)
    assert fed(graph_of(made)).utilisation == pytest.approx(utilisation(made).computing, abs=1e-3)


@pytest.mark.parametrize(
    ("computing", "blocked", "work", "compute", "workers", "share"),
    [
        ("sleep", 0, 100, 100, 1, 1.0),  # hidden
        ("sleep", 0, 400, 100, 1, 0.25),  # one worker is four times too slow
        ("sleep", 0, 400, 100, 2, 0.5),
        ("sleep", 0, 400, 100, 4, 0.5),  # two cores are all there is
        ("sleep", 400, 0, 100, 4, 1.0),  # waiting for storage takes no core
        ("real", 0, 100, 100, 1, 1.0),  # a core for each
        ("real", 0, 300, 100, 2, 0.5),  # 400 of work a step on two cores
    ],
)
def test_workers_are_predicted_from_a_run_without_any(
    computing: str, blocked: int, work: int, compute: int, workers: int, share: float
) -> None:
    made = alone(60, blocked * 1000, work * 1000, compute * 1000, computing)
    found = fed(graph_of(made), [f"data_workers(count={workers})"])
    assert found.utilisation == pytest.approx(share, abs=0.04)


def test_storage_that_gives_so_many_bytes_bounds_all_workers_together() -> None:
    """A batch has 1000 bytes: 400 us of a disk of 2.5 MB/s, 200 us of one of 5 MB/s."""
    made = alone(60, 150_000, 0, 100_000)
    ask = ["data_workers(count=4)"]
    for rate, share in ((2.5e6, 0.25), (5e6, 0.5), (0.0, 1.0)):
        run = replace(made, storage_bytes_per_s=rate)
        assert fed(graph_of(run), ask).utilisation == pytest.approx(share, abs=0.03)
        assert fed(graph_of(run)).utilisation == pytest.approx(0.4, abs=1e-3)


def test_handing_over_costs_both_sides() -> None:
    made = alone(60, 0, 100_000, 100_000)
    slow = FeedRun(GIVEN, made.loading, made.batches, 100_000, HandOver(100_000, 25_000), cores=2)
    assert fed(graph_of(slow), ["data_workers(count=1)"]).utilisation == pytest.approx(
        0.5, abs=0.02
    )
    two = fed(graph_of(slow), ["data_workers(count=2)"]).utilisation
    assert two == pytest.approx(100 / 125, abs=0.03)


def test_batches_that_differ_need_more_of_them_ahead() -> None:
    """Every fifth takes as long as five steps: on the mean one worker would keep up."""
    batches, at = [], 0
    for step in range(100):
        work = 400_000 if step % 5 == 4 else 10_000
        cost = Cost(decode_ns=work, decode_worked_ns=work)
        batches.append(Batch(at, at + work, at + work + 100_000, at, at + work, -1, cost, 0))
        at += work + 100_000
    graph = graph_of(FeedRun(GIVEN, Loading(), tuple(batches), 100_000, cores=2))
    near, far = (
        fed(graph, ["data_workers(count=1)", f"prefetch(batches={n})"]).utilisation for n in (1, 8)
    )
    assert near < 0.75
    assert far > 0.97


def test_cache_leaves_copying_and_a_format_takes_what_was_measured_of_it() -> None:
    made = alone(20, 50_000, 50_000, 100_000)
    told = FeedRun(GIVEN, made.loading, made.batches, 100_000, cores=2,
                   formats=(Stored("npz", 20_000, 5_000),))  # fmt: skip
    graph = graph_of(told)
    assert fed(graph).utilisation == pytest.approx(0.5, abs=1e-3)
    assert fed(graph, ["cache"]).utilisation == pytest.approx(1.0, abs=1e-3)
    assert fed(graph, ["format(name='npz')"]).utilisation == pytest.approx(0.8, abs=1e-3)
    from paceline.errors import PacelineError

    with pytest.raises(PacelineError, match=r"in format 'raw' \(it tells npz\)"):
        fed(graph, ["format(name='raw')"])
    with pytest.raises(PacelineError, match="no format for arrays"):
        fed(graph, ["format(name='jpeg')"])


def _handed(handed: HandOver, *changes: str, woken: int = 0) -> float:
    """Of 60 steps of 100 us of loading and 200 us of computing, on two cores."""
    made = alone(60, 0, 100_000, 200_000 + woken)
    run = FeedRun(GIVEN, made.loading, made.batches, 200_000, handed, cores=2)
    return fed(graph_of(run), changes).utilisation


def test_the_thread_waits_for_the_answer_of_a_worker_that_is_busy() -> None:
    waits = HandOver(taken_ns=20_000, answered_ns=30_000)
    assert _handed(waits, "data_workers(count=1)") == pytest.approx(200 / 250, abs=0.01)
    assert _handed(waits) == pytest.approx(200 / 300, abs=0.01)  # nobody is asked


def test_waking_late_is_the_threads_and_no_computing() -> None:
    assert _handed(HandOver(), woken=100_000) == pytest.approx(200 / 400, abs=0.01)
