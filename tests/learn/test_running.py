"""Many clients on few workers: the same run, whoever carries them; what breaks is left out."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paceline.learn import ALGORITHMS, Chances, LearnError, Meeting, Task, load, run, save
from paceline.learn.carrier import Alone
from paceline.learn.peers_run import PeersRun
from paceline.learn.softmax import Softmax

WORKER = Path(__file__).parent / "worker.py"
NEED_TORCH = {"dgc", "diloco", "overlap_local_sgd"}


@pytest.mark.live
@pytest.mark.needs("torch")
def test_two_workers_make_the_same_run_as_one_client_by_client(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run([*command, str(WORKER), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    alone, pair = (np.load(tmp_path / f"{name}.npz") for name in ("alone", "pair"))
    assert sorted(alone) == sorted(pair)
    assert len(alone.files) > 4 * 10
    for name in alone.files:
        assert np.array_equal(alone[name], pair[name]), name


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.needs("torch")
def test_means_by_all_reduce_differ_in_the_last_bits_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    worker = str(WORKER.with_name("sums_worker.py"))
    done = subprocess.run([*command, worker, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads((tmp_path / "told.json").read_text())
    assert len(told) == 4
    for pair, alone, sent, sent_alone in told.values():
        assert np.allclose(pair, alone, atol=0.01)
        assert sent == sent_alone


class Blocks(Softmax):
    """Called a model of two blocks, of which the second has no weights, so that it can grow."""

    stages = 2


def task_of(toy, name: str, rounds: int) -> Task:
    """Any algorithm on the toy."""
    more = {"feddst": ", sparsity=0.4", "progfed": ", cycle=20"}  # of twelve weights few can go
    task = toy.task(f"{name}(lr=0.1{more.get(name, '')})", rounds)
    if name != "progfed":
        return task
    return replace(task, learner=Blocks(toy.clouds(), toy.clouds(seed=1)))


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_learns_and_counts_its_bytes(toy, name: str) -> None:
    if name in NEED_TORCH:
        pytest.importorskip("torch")
    found = run(task_of(toy, name, 30))
    assert found.accuracy > 0.8
    assert found.sent_bytes > 0
    assert len(found.rounds) == 30
    assert all(work.samples > 0 for each in found.rounds for work in each.works)


def test_a_run_is_kept_and_read_again(toy, tmp_path: Path) -> None:
    made = run(toy.task("fedavg", 3))
    save([made], tmp_path / "run")
    (again,) = load(tmp_path / "run")
    assert again.judged == made.judged
    assert [r.trips for r in again.rounds] == [r.trips for r in made.rounds]
    with pytest.raises(LearnError, match="makes one"):
        load(tmp_path / "none")
    (tmp_path / "run" / "learn.json").write_text("{}")
    with pytest.raises(LearnError, match="no run of"):
        load(tmp_path / "run")


def test_clients_that_drop_out_neither_train_nor_send(toy) -> None:
    task = replace(toy.task("fedavg", 12), chances=Chances(drops=0.5))
    found = run(task)
    absent = [n for each in found.rounds for n in each.absent]
    assert 10 < len(absent) < 40
    for each in found.rounds:
        assert not {w.client for w in each.works} & set(each.absent)
        assert not {t.source for t in each.trips} & set(each.absent)


class Poisoned(Softmax):
    """One client's samples give no gradient."""

    def gradient(self, weights, rows, stage=None):
        found = super().gradient(weights, rows, stage)
        if rows.min() % 4 == 0 and (rows % 4 == 0).all():
            found.values[:] = np.nan
        return found


class PoisonedBlocks(Poisoned):
    stages = 2


SEVERAL = ("dgc(lr=0.1, tight=True)", "skewscout(lr=0.1, behind='dgc', travel=20, samples=9)",
           "dlion(lr=0.1, links_mbit=(1.0, 1.0, 1.0, 1.0), merge_every=5)")  # fmt: skip


@pytest.mark.parametrize("text", [*sorted(ALGORITHMS), *SEVERAL])
def test_a_client_that_sends_nan_is_left_out_counted_and_named(toy, text: str) -> None:
    if text.partition("(")[0] in NEED_TORCH or "dgc" in text:
        pytest.importorskip("torch")
    task = toy.task(text, 30) if text in SEVERAL else task_of(toy, text, 30)
    rows = tuple(np.arange(240)[n::4] for n in range(4))
    kind = PoisonedBlocks if text == "progfed" else Poisoned
    poisoned = kind(toy.clouds(), toy.clouds(seed=1))
    found = run(replace(task, learner=poisoned, partition=replace(task.partition, rows=rows)))
    assert set(found.broken) == {0}
    served = found.meeting is Meeting.SERVER
    assert found.broken[0] == (30 if served else 1 + found.lag)
    assert found.accuracy > 0.8
    spoke = {t.source for each in found.rounds[2:] for t in each.trips}
    assert served or 0 not in spoke


@pytest.mark.needs("torch")
def test_a_round_from_which_all_dropped_out_has_no_mean(toy) -> None:
    """As without sums, where nobody takes anything then."""
    import torch

    from paceline.learn.torch_carrier import _Sum

    work = SimpleNamespace(wait=lambda: None)
    assert _Sum(work, torch.zeros(4)).mean() is None
    assert _Sum(work, torch.tensor([2.0, 4.0, 2.0])).mean().tolist() == [1.0, 2.0]
    driver = PeersRun(toy.task("synchronous"), Alone())
    before = driver.mine[0].weights.copy()
    driver._take_mean(None, 0)
    assert np.array_equal(driver.mine[0].weights, before)


def test_where_all_break_it_is_said(toy) -> None:
    class Broken(Softmax):
        def gradient(self, weights, rows, stage=None):
            found = super().gradient(weights, rows, stage)
            found.values[:] = np.inf
            return found

    task = replace(toy.task("synchronous", 2), learner=Broken(toy.clouds(), toy.clouds()))
    with pytest.raises(LearnError, match="smaller lr"):
        run(task)


def test_replicas_of_synchronous_sgd_stay_alike(toy) -> None:
    driver = PeersRun(toy.task("synchronous"), Alone())
    for number in range(5):
        driver.round(number)
    assert all(np.array_equal(c.weights, driver.mine[0].weights) for c in driver.mine.values())


def test_peers_take_part_in_every_round(toy) -> None:
    with pytest.raises(LearnError, match="leave per_round out"):
        replace(toy.task("synchronous"), chances=Chances(per_round=2))
    with pytest.raises(LearnError, match="there are 4"):
        run(replace(toy.task("fedavg"), chances=Chances(per_round=5)))


@pytest.mark.parametrize("text", ["dlion(lr=0.1)", "skewscout(lr=0.1, travel=20, samples=9)"])
def test_a_run_ends_by_the_steps_of_a_client_that_was_always_there(toy, text: str) -> None:
    """Whoever dropped out of which round, or has fewer samples than a batch."""
    task = replace(toy.task(text, 300, clients=30), enough_samples=400, every=300)
    whole, some = (run(replace(task, chances=Chances(drops=d))) for d in (0.0, 0.3))
    assert len(whole.rounds) == len(some.rounds) < 30
    if text.startswith("dlion"):
        assert len(whole.rounds) == 400 // 20


def test_a_run_says_what_was_asked_for(toy) -> None:
    found = run(replace(toy.task("fedavg", 2), chances=Chances(per_round=2, drops=0.1)))
    assert (found.samples, found.per_round, found.drops) == (240, 2, 0.1)
