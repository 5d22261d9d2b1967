"""Real loaders on real files: what they cost, what is damaged, what raises."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from paceline.feed import (  # noqa: E402
    Computing,
    DataSet,
    Description,
    FeedError,
    Loading,
    generate,
    utilisation,
)
from paceline.feed.drawn import graph_of  # noqa: E402
from paceline.feed.torch_batches import fitted  # noqa: E402
from paceline.feed.torch_probe import probed  # noqa: E402
from paceline.feed.torch_run import loader_of, run  # noqa: E402
from paceline.predict.input import fed  # noqa: E402

SMALL = Description(
    "small", "npz", samples=24, size_bytes=20_000, spread_bytes=4000, batch=4, compute_ns=500_000
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    return generate(SMALL, tmp_path_factory.mktemp("data") / "small")


@pytest.mark.live
@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_has_every_batch_with_its_parts(data: DataSet, workers: int) -> None:
    found = run(data, Loading(workers=workers))
    assert len(found.batches) == 6
    assert {batch.worker for batch in found.batches} == ({0, 1} if workers else {-1})
    for batch in found.batches:
        assert batch.begun_ns <= batch.ready_ns <= batch.got_ns <= batch.done_ns
        assert batch.cost.read_bytes > 4 * 2000
        inside = batch.cost.read_ns + batch.cost.decode_ns + batch.collate_ns
        assert 0 < inside <= batch.ready_ns - batch.begun_ns
    assert sum(utilisation(found).shares.values()) == pytest.approx(1, abs=0.02)
    assert found.damaged == {}


@pytest.mark.live
def test_workers_make_the_batches_that_the_thread_makes(data: DataSet) -> None:
    plain, beside = (
        [batch.tolist() for batch, _ in loader_of(data, Loading(workers=n))] for n in (0, 1)
    )
    assert plain == beside


@pytest.mark.live
def test_a_damaged_file_among_good_ones_is_counted_and_named(tmp_path: Path) -> None:
    data = generate(SMALL, tmp_path)
    data.files[5].write_bytes(b"no zip file")
    for workers in (0, 1):
        assert run(data, Loading(workers=workers)).damaged == {"small-0000005.npz": 1}


@pytest.mark.live
@pytest.mark.parametrize("workers", [0, 1])
def test_a_reader_that_raises_is_reported(data: DataSet, workers: int) -> None:
    with pytest.raises(FeedError, match=r"reader of .* raised ZeroDivisionError"):
        run(data, Loading(workers=workers), _divides)


def _divides(path: Path, place: int) -> np.ndarray:
    return np.zeros(1 // place)


def test_a_readers_own_samples_are_decoding(data: DataSet) -> None:
    found = run(data, Loading(), lambda path, place: np.ones(100, np.uint8))
    assert all(batch.cost.read_bytes == 0 < batch.cost.decode_ns for batch in found.batches)


def test_more_steps_than_there_are_batches_are_refused(data: DataSet) -> None:
    with pytest.raises(FeedError, match="24 samples, 6 batches of 4"):
        run(data, Loading(steps=7))
    with pytest.raises(FeedError, match="give 0, 1 and 0 or more"):
        Loading(workers=-1)


def test_samples_are_cut_or_filled_to_what_a_batch_takes() -> None:
    assert fitted(np.arange(5, dtype=np.uint8), 3).tolist() == [0, 1, 2]
    assert fitted(np.array([258], np.uint16), 4).tolist() == [2, 1, 0, 0]


@pytest.mark.live
def test_a_probed_run_is_a_graph_that_strategies_change(data: DataSet) -> None:
    how = Loading(cached=False, computing=Computing.REAL)
    found = probed(run(data, how), data, ["raw", "npz"])
    assert found.storage_bytes_per_s > 1e6
    assert found.hand_over.taken_ns > 0
    assert [each.format for each in found.formats] == ["raw", "npz"]
    assert all(each.work_ns > 0 for each in found.formats)
    graph = graph_of(found)
    plain, beside = (fed(graph, changes).utilisation for changes in ([], ["data_workers(count=2)"]))
    assert 0 < plain < 1
    assert 0 < beside <= 1
    with pytest.raises(FeedError, match="a run with --workers 0"):
        graph_of(replace(found, loading=Loading(workers=1)))
