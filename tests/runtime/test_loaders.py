"""DataLoaders of a live job: other workers, other batches, and the script's own back again."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

import paceline  # noqa: E402
from paceline.strategies import parse  # noqa: E402
from paceline.strategies.data_workers import DataWorkers  # noqa: E402


def loader(**settings: object) -> DataLoader:
    return DataLoader(TensorDataset(torch.arange(24.0)), **{"batch_size": 4, **settings})


def job() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Linear(1, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def batches(given: DataLoader) -> list[list[float]]:
    return [part.tolist() for (part,) in given]


def test_workers_bring_the_very_same_batches() -> None:
    given = loader()
    before = batches(given)
    with paceline.applied(["data_workers(count=2)", "prefetch(batches=1)"], *job()):
        workers = iter(given)
        assert workers._num_workers == 2
        assert [part.tolist() for (part,) in workers] == before
    assert iter(given)._num_workers == 0
    assert given.num_workers == 0


def test_workers_leave_pinned_memory_pinned() -> None:
    change = parse("data_workers(count=1)")
    assert isinstance(change, DataWorkers)
    assert change.settings(loader(pin_memory=True))["pin_memory"]
    assert not change.settings(loader())["pin_memory"]


def test_a_shuffled_loader_draws_the_same_order_with_workers() -> None:
    given = loader(shuffle=True, generator=torch.Generator().manual_seed(3))
    before = batches(given)
    given.generator.manual_seed(3)
    with paceline.applied(["data_workers(count=1)"], *job()):
        assert batches(given) == before


def test_a_batch_holds_more_samples_until_the_plan_is_left() -> None:
    given = loader()
    with paceline.applied(["batch(factor=2.0)"], *job()):
        assert [len(part) for (part,) in given] == [8, 8, 8]
    assert [len(part) for (part,) in given] == [4] * 6


def test_both_at_once() -> None:
    with paceline.applied(["batch(factor=3.0)", "data_workers(count=1)"], *job()):
        assert [len(part) for (part,) in loader()] == [12, 12]


def test_a_stream_of_samples_keeps_its_one_reader(caplog: pytest.LogCaptureFixture) -> None:
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(torch.arange(6.0))

    with paceline.applied(["data_workers(count=2)", "batch(factor=2.0)"], *job()):
        found = [part.tolist() for part in DataLoader(Stream(), batch_size=2)]
    assert sum(map(len, found)) == 6
    assert "IterableDataset" in caplog.text


def test_loaders_are_as_before_after_an_error() -> None:
    with pytest.raises(RuntimeError), paceline.applied(["data_workers(count=1)"], *job()):
        raise RuntimeError
    assert iter(loader())._num_workers == 0


class Counted(torch.utils.data.Dataset):
    """Pairs of an image and a number, and how often each was read."""

    def __init__(self) -> None:
        self.reads: list[int] = []

    def __len__(self) -> int:
        return 8

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        self.reads.append(place)
        return torch.full((3,), float(place)), place


def pairs(given: DataLoader) -> list[tuple[list[list[float]], list[int]]]:
    return [(images.tolist(), numbers.tolist()) for images, numbers in given]


@pytest.mark.parametrize("plan", ["cache", "format(name='raw')", "format(name='npz')"])
def test_later_epochs_read_nothing_anew_and_bring_the_same(plan: str) -> None:
    samples = Counted()
    given = DataLoader(samples, batch_size=4)
    wanted = pairs(given)
    samples.reads.clear()
    with paceline.applied([plan], *job()):
        assert pairs(given) == wanted
        assert sorted(samples.reads) == list(range(8))
        assert pairs(given) == wanted
        assert len(samples.reads) == 8
    assert pairs(given) == wanted
    assert len(samples.reads) == 16


def test_workers_of_later_epochs_find_what_earlier_ones_kept(tmp_path: Path) -> None:
    samples = Counted()
    given = DataLoader(samples, batch_size=4)
    wanted = pairs(given)
    kept = f"cache(folder='{tmp_path}')"
    with paceline.applied([kept, "data_workers(count=2)"], *job()):
        assert pairs(given) == wanted
        assert sorted(path.name for path in (tmp_path / "0").iterdir()) == list("01234567")
        samples.reads = None  # reading one more would raise
        assert pairs(given) == wanted


def test_samples_that_are_no_arrays_are_not_put_into_files() -> None:
    class Words(Counted):
        def __getitem__(self, place: int) -> object:
            return {"text": "a word", "place": place}

    with (
        pytest.raises(paceline.errors.PacelineError, match="a sample holds a str"),
        paceline.applied(["format(name='raw')"], *job()),
    ):
        list(DataLoader(Words(), batch_size=2))


def test_a_job_without_loaders_is_told_that_its_batches_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with paceline.applied(["batch(factor=0.5)"], *job()):
        pass
    assert "batches and its loading stayed as they are" in caplog.text


def test_a_job_with_loaders_is_told_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with paceline.applied(["batch(factor=0.5)"], *job()):
        batches(loader())
    assert caplog.text == ""
