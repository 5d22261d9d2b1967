"""`paceline learn`: from a folder of data to a forecast."""

import gzip
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from paceline.cli import main
from paceline.learn import load
from paceline.measure import Calibration, Handling, Sweep, save


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten classes of bright rows, in Fashion-MNIST's four files."""
    folder = tmp_path_factory.mktemp("fashion")
    drawn = np.random.default_rng(0)
    for part, count in (("train", 600), ("t10k", 200)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        images = drawn.integers(0, 90, (count, 28, 28)).astype(np.uint8)
        images[np.arange(count), 2 * labels + 3] = 250
        if part == "t10k":
            labels[::8] = 0  # nobody gets these right
        for what, header, values in (("images-idx3", 16, images), ("labels-idx1", 8, labels)):
            packed = gzip.compress(bytes(header) + values.tobytes(), 1)
            (folder / f"{part}-{what}-ubyte.gz").write_bytes(packed)
    return folder


def test_a_partition_is_shown_and_drawn(data: Path, tmp_path: Path, capsys) -> None:
    picture = tmp_path / "parts.svg"
    words = [
        "--data",
        str(data),
        "--clients",
        "5",
        "--partition",
        "by_class",
        "--svg",
        str(picture),
    ]
    assert main(["learn", "partition", *words]) == 0
    shown = capsys.readouterr().out
    assert "skew 0.800" in shown
    assert "0" * 25 + "1" * 25 in shown
    assert picture.read_text().count("<rect") == 10 + 10  # bars, and the legend


def test_the_name_alone_is_debians_package_where_no_such_folder_is_here(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["learn", "partition", "--data", "fashion-mnist", "--clients", "5"]
    fashion_mnist = import_module("paceline.learn.fashion_mnist")
    monkeypatch.setattr(fashion_mnist, "DEBIAN", tmp_path / "no" / "fashion-mnist")
    assert main(words) == 1
    assert "dataset-fashion-mnist is installed" in capsys.readouterr().err
    package = tmp_path / "share" / "fashion-mnist"
    package.parent.mkdir()
    package.symlink_to(data)
    monkeypatch.setattr(fashion_mnist, "DEBIAN", package)
    assert main(words) == 0
    assert "5 clients, 600 samples" in capsys.readouterr().out


@pytest.mark.needs("torch")
def test_from_a_run_to_a_forecast(data: Path, tmp_path: Path, capsys) -> None:
    out = str(tmp_path / "run")
    words = ["--data", str(data), "--algorithm", "fedavg(steps=5, lr=0.1)", "--rounds", "8"]
    assert main(["learn", "run", "-o", out, "--model", "cnn", *words]) == 0
    assert "after 8 rounds" in capsys.readouterr().out
    (tmp_path / "c.yaml").write_text("hosts: 5\nlink: {rate: 100Mbps, latency: 50us}\n")
    asked = ["learn", "predict", out, "--cluster", str(tmp_path / "c.yaml"), "--json", "--target"]
    assert main([*asked, "0.5"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert 0 < found["low_s"] < found["seconds"] < found["high_s"]
    handled = str(tmp_path / "here.json")
    line = Sweep((1e6, 2e6, 4e6), (1e6, 2e6, 4e6))
    whole = Calibration("here", 1, 2, line, line, line, None, None, handling=Handling(call_ns=1e9))
    save(whole, Path(handled))
    assert main([*asked, "0.5", "--calibration", handled]) == 0
    (later,) = json.loads(capsys.readouterr().out)
    assert later["round_s"] > found["round_s"] + 1.0  # telling sizes takes a second, twice a round
    assert main([*asked, "0.9999"]) == 0
    (never,) = json.loads(capsys.readouterr().out)
    assert never["seconds"] is None or not never["observed"]


def test_wrong_words_are_answered_with_the_right_ones(data: Path, tmp_path: Path, capsys) -> None:
    assert main(["learn", "partition", "--data", str(tmp_path)]) == 1
    assert "dataset-fashion-mnist" in capsys.readouterr().err
    words = ["learn", "run", "-o", str(tmp_path / "r"), "--data", str(data), "--algorithm"]
    assert main([*words, "fedavgg"]) == 1
    assert "did you mean fedavg?" in capsys.readouterr().err
    assert main([*words, "fedavg(mu=1)"]) == 1
    assert "fedavg has no setting 'mu'" in capsys.readouterr().err


@pytest.mark.needs("torch")
def test_each_seed_is_kept_and_can_be_run_alone(data: Path, tmp_path: Path, capsys) -> None:
    words = ["--data", str(data), "--algorithm", "fedavg(steps=2)", "--rounds", "2", "--model",
             "cnn", "--samples", "300", "--json"]  # fmt: skip
    both, alone, third = (str(tmp_path / name) for name in ("both", "alone", "third"))
    assert main(["learn", "run", "-o", both, "--seeds", "2", *words]) == 0
    assert main(["learn", "run", "-o", alone, "--seed", "2", *words]) == 0
    assert [run.judged for run in load(Path(alone))] == [load(Path(both))[1].judged]
    (tmp_path / "file").write_text("")
    capsys.readouterr()
    assert main(["learn", "run", "-o", str(tmp_path / "file" / "run"), *words]) == 1
    assert "choose another folder (-o)" in capsys.readouterr().err
    assert main(["learn", "run", "-o", third, "--seed", "3", "--per-round", "2", *words]) == 0
    assert main(["learn", "show", both, third]) == 0
    shown = capsys.readouterr().out
    assert "2 seeds" in shown
    assert "5 clients, 2 a round" in shown


@pytest.mark.needs("torch")
def test_messages_between_workers_that_share_cores_go_over_tcp(
    data: Path, tmp_path: Path, capsys
) -> None:
    out, place = str(tmp_path / "run"), tmp_path / "c.yaml"
    words = ["--data", str(data), "--algorithm", "fedavg(steps=1)", "--rounds", "4"]
    assert main(["learn", "run", "-o", out, "--model", "cnn", *words]) == 0
    place.write_text("hosts: 5\nlink: {rate: 1Mbps, latency: 50us}\n")
    asked = ["learn", "predict", out, "--cluster", str(place), "--json", "--target", "0.1"]
    capsys.readouterr()

    def round_s(*more: str) -> float:
        assert main([*asked, "--cores", "64", *more]) == 0
        return json.loads(capsys.readouterr().out)[0]["round_s"]

    assert round_s() > 1.02 * round_s("--set", "transport.efficiency=0.9999")
