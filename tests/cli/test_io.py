"""`paceline io` and `paceline latency`: from a description to a prediction, as a user types it."""

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.cli import main

DESCRIPTION = """
name: small
format: tfrecord
samples: 24
size: 30KB
spread: 6KB
batch: 4
compute: 1ms
utilisation: 0.9
"""


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["io", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    (tmp_path / "small.yaml").write_text(DESCRIPTION)
    made = shown(capsys, "generate", str(tmp_path / "small.yaml"), "-o", str(tmp_path / "data"))
    assert made["samples"] == made["files"] == 24
    return tmp_path / "data"


@pytest.mark.needs("torch")
def test_from_a_description_to_the_utilisation_of_other_settings(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = str(data.parent / "run")
    (run,) = shown(capsys, "run", str(data), "--formats", "raw", "-o", kept)["runs"]
    assert 0 < run["computing"] < 1
    told = shown(capsys, "predict", kept, "--workers", "1", "2")["predicted"]
    assert [row["changes"] for row in told] == [
        [],
        ["data_workers(count=1, pinned=False)"],
        ["data_workers(count=2, pinned=False)"],
    ]
    (raw,) = shown(capsys, "predict", kept, "--with", "format(name='raw')")["predicted"]
    assert raw["utilisation"] > told[0]["utilisation"]
    assert main(["io", "predict", kept]) == 0
    assert "as recorded" in capsys.readouterr().out


@pytest.mark.needs("torch")
def test_damaged_files_are_named_in_words(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "small-0000003.tfrecord").write_bytes(b"short")
    assert main(["io", "run", str(data)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 samples could not be read and were left out: small-0000003.tfrecord (1)" in said
    assert "90% is asked for" in said


@pytest.mark.needs("torch")
def test_a_users_reader_that_raises_ends_the_run_and_is_named(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = data.parent / "read.py"
    reader.write_text("def sample(path, place):\n    raise LookupError('no such key')\n")
    assert main(["io", "run", str(data), "--reader", f"{reader}:sample"]) == 1
    assert "raised LookupError: no such key" in capsys.readouterr().err
    assert main(["io", "run", str(data), "--reader", str(reader)]) == 1
    assert "give a Python file and a function" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["io", "generate", "imagenet", "-o", "x"], "one of cosmoflow, resnet50, unet3d"),
        (["io", "generate", "resnet50", "--scale", "0", "-o", "x"], "give a factor above 0"),
        (["io", "run", "nowhere"], "holds no data set"),
        (["latency", "--zoo"], "give --by FILE"),
        (["latency", "--zoo", "--by", "nowhere.json"], "holds nothing learned of a machine"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    assert said in capsys.readouterr().err


@pytest.mark.needs("torch", "torchvision")
def test_networks_are_predicted_by_what_was_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np

    from paceline.cost.network import CallKind, LatencyModel, save

    known = tmp_path / "here.json"
    save(LatencyModel({CallKind.OTHER: np.array([1e4, 0.1, 0.1, 0.0])}, {}, 0.0, 1e11), known)
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\ndef build():\n    return nn.Conv2d(3, 8, 3, bias=False)\n"
    )
    mine = f"{tmp_path / 'net.py'}:build"
    asked = ["latency", mine, "--zoo", "squeezenet1_1", "--input", "1x3x32x32", "--by", str(known)]
    assert main([*asked, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["networks"]
    assert first["flops"] == 2 * 30 * 30 * 8 * 27
    assert first["predicted_ns"] == pytest.approx(1e4 + 0.1 * 4 * (3 * 32**2 + 216 + 8 * 30**2))
    assert second["name"] == "squeezenet1_1"
    assert second["measured_utilisation"] is None
    assert main(["latency", "net.py", "--by", str(known)]) == 1
    assert "model.py:build" in capsys.readouterr().err
