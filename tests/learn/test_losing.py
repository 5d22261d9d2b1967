"""A worker that dies: the others go on without its clients, which are counted and named."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from paceline.learn import Chances, LearnError, LearnRun, load, run, save
from paceline.learn.advice import advice
from paceline.learn.carrier import Alone, Carrier, Parcel, Pending, Reformed
from paceline.learn.errors import Disconnected
from paceline.learn.seat import CRASHED, WorkerPlace, cause_of

WORKER = Path(__file__).parent / "dying_worker.py"
TEXTS = ("synchronous(lr=0.1)", "local_sgd(lr=0.1)", "fedavg(lr=0.1)", "gaia(lr=0.1)",
         "dlion(lr=0.1)", "overlap_local_sgd(lr=0.1)", "skewscout(lr=0.1, travel=20, samples=9)",
         "scaffold(lr=0.1)")  # fmt: skip


@dataclass
class Losing(Carrier):
    """Carries all clients itself, in the names of two workers of which the second dies."""

    at_call: int  # of `send`, at which the connection is lost
    rank: int = 0
    workers: int = 2
    calls: int = 0
    carried: Alone = field(default_factory=Alone)
    died: dict[int, str] = field(default_factory=dict)

    def carries(self, number: int) -> bool:
        return True

    @property
    def gone(self) -> dict[int, str]:
        return self.died

    @property
    def may_lose(self) -> bool:
        return True

    def send(self, parcels: Sequence[Parcel], alike: str = "") -> Pending:
        self.calls += 1
        if self.calls == self.at_call:
            raise Disconnected("lost the connection to worker 1")
        return self.carried.send(parcels, alike)

    def reformed(self, round_: int, lost: Disconnected) -> Reformed:
        self.died[1] = "signal SIGKILL"
        return Reformed(self.died, round_)


@pytest.mark.parametrize("text", TEXTS)
def test_clients_of_a_worker_that_died_are_left_out_and_the_others_learn_on(toy, text: str) -> None:
    if text.startswith("overlap"):
        pytest.importorskip("torch")
    found = run(toy.task(text, 30), Losing(at_call=9))
    (lost,) = found.lost
    assert (lost.worker, lost.clients) == (1, (1, 3))
    assert len(found.rounds) == 30
    for each in found.rounds:
        trained = {work.client for work in each.works}
        assert trained == ({0, 1, 2, 3} if each.number < lost.round else {0, 2})
        sent = {trip.source for trip in each.trips} - {-1}
        assert sent <= trained
    assert found.accuracy > 0.8


def test_a_round_that_was_cut_short_is_run_again_from_its_beginning(toy) -> None:
    """The run equals one whose second worker's clients dropped out between the same rounds."""
    cut = run(toy.task("fedavg", 6), Losing(at_call=9))
    begun = cut.lost[0].round
    plain = run(toy.task("fedavg", 6))
    assert [j.accuracy for j in cut.judged[:begun]] == [j.accuracy for j in plain.judged[:begun]]
    assert [r.number for r in cut.rounds] == list(range(6))
    assert cut.judged[-1].sent_bytes < plain.judged[-1].sent_bytes


def test_the_next_runs_clients_of_a_worker_that_has_died_are_named_too(toy) -> None:
    carrier = Losing(at_call=9)
    run(toy.task("fedavg", 6), carrier)
    after = run(toy.task("fedavg", 6), carrier)
    assert [(lost.worker, lost.round, lost.clients) for lost in after.lost] == [(1, 0, (1, 3))]
    assert {work.client for work in after.rounds[0].works} == {0, 2}


def test_where_nobody_may_be_lost_it_is_an_error(toy) -> None:
    class Stubborn(Losing):
        def reformed(self, round_: int, lost: Disconnected) -> Reformed:
            raise lost

    with pytest.raises(LearnError, match="lost the connection"):
        run(toy.task("fedavg", 6), Stubborn(at_call=3))


def test_rounds_whose_clients_are_all_gone_change_nothing(toy) -> None:
    task = replace(toy.task("fedavg", 20), chances=Chances(per_round=1))
    found = run(task, Losing(at_call=3))
    empty = [each for each in found.rounds if not each.works]
    assert empty
    assert all(not each.broken and not each.absent for each in empty)


def test_what_was_lost_is_kept_and_said(toy, tmp_path: Path) -> None:
    made = run(toy.task("fedavg", 6), Losing(at_call=9))
    save([made], tmp_path / "run")
    (again,) = load(tmp_path / "run")
    assert again.lost == made.lost
    said = " ".join(advice([again]))
    assert "worker 1 died in round" in said
    assert "(signal SIGKILL): 2 of 4 clients (1, 3) were left out" in said


def test_a_workers_exit_code_tells_how_it_ended() -> None:
    assert cause_of(0) is None
    assert cause_of(1) is None
    assert cause_of(-9) == "signal SIGKILL"
    assert cause_of(CRASHED) == "an exception"
    with pytest.raises(LearnError, match="MASTER_PORT"):
        WorkerPlace.of({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"})


def started(folder: Path, workers: int, *words: str) -> "subprocess.CompletedProcess[str]":
    """A run under torchrun, of which one worker is killed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.run(
        [*command, "--nproc-per-node", str(workers), str(WORKER), str(folder), *words],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def killed(folder: Path, workers: int, *words: str) -> LearnRun:
    done = started(folder, workers, *words)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"worker 1 of {workers} died (signal SIGKILL)" in done.stderr
    (made,) = load(folder)
    return made


def require_went_on(made: LearnRun, gone: set[int]) -> None:
    (lost,) = made.lost
    assert (lost.worker, set(lost.clients), lost.cause) == (1, gone, "signal SIGKILL")
    assert lost.round in (2, 3)  # where one was still behind, all go back to it
    assert [each.number for each in made.rounds] == list(range(12))
    assert {w.client for w in made.rounds[-1].works} == {0, 1, 2, 3} - gone
    assert made.accuracy > 0.8


@pytest.mark.live
@pytest.mark.needs("torch")
def test_one_of_two_workers_is_killed_and_the_run_ends_well(tmp_path: Path) -> None:
    require_went_on(killed(tmp_path / "run", 2, "fedavg(lr=0.1)"), {1, 3})


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    "words", [("synchronous(lr=0.1)", "--sums"), ("gaia(lr=0.1)",), ("overlap_local_sgd(lr=0.1)",)]
)
def test_two_of_three_workers_go_on(words: tuple[str, ...], tmp_path: Path) -> None:
    require_went_on(killed(tmp_path / "run", 3, *words), {1})


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.needs("torch")
def test_without_the_first_worker_a_run_ends_and_says_so(tmp_path: Path) -> None:
    done = started(tmp_path / "run", 2, "fedavg(lr=0.1)", "--first")
    assert done.returncode
    assert "worker 0 of 2 died (signal SIGKILL)" in done.stderr
