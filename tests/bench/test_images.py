"""Where the suite finds Fashion-MNIST, and what it makes of it."""

from pathlib import Path

import pytest

from paceline.learn import fashion_mnist

pytestmark = pytest.mark.needs("torch")
PACKAGE = Path("/usr/share/datasets/fashion-mnist")


def test_debians_package_is_found_and_read_as_learn_reads_it() -> None:
    from paceline.bench.torch_images import fashion, images
    from paceline.bench.workload import Setup

    if not PACKAGE.is_dir():
        pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    assert fashion(None) == PACKAGE
    (pixels, classes), _ = images(Setup(batch=1))
    train, _ = fashion_mnist(Path("fashion-mnist"))
    count = len(classes)
    assert pixels.shape == (count, 1, 28, 28)
    assert classes.tolist() == train.labels[:count].tolist()
    assert abs(pixels.numpy() - train.inputs[:count]).max() < 1e-5


def test_a_folder_of_ones_own_comes_first_and_none_is_no_error(tmp_path: Path) -> None:
    from paceline.bench.torch_images import fashion

    mine = tmp_path / "fashion-mnist"
    mine.mkdir()
    (mine / "train-images-idx3-ubyte.gz").touch()
    assert fashion(tmp_path) == mine
    assert fashion(tmp_path / "elsewhere") in (None, PACKAGE)
