"""Benchmarks of kernels judge the folder that is given, or say in a sentence why they cannot."""

import json
import sys
from pathlib import Path

import pytest
from benchmarks.accuracy import forecasts, kernel_flops, kernel_traces, kernels

GPT2 = {
    "model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 1000,
    "activation_function": "gelu_new",
}  # fmt: skip
STEPS = "model,seq,batch,mode,option,device,ms\nsmall,16,8,train,{option},{device},2.5\n"
GEMM = "device,dtype,m,n,k,ms\nh100,bfloat16,4096,4096,4096,0.2\n"
SHEETS = "h100: {preset: h100}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty; whoever starts what was not asked for fails."""
    for room, name in (
        (forecasts, "kernels_left_out"),
        (forecasts, "tables_left_out"),
        (kernel_flops, "figures"),
        (kernel_traces, "own_figures"),
    ):
        monkeypatch.setattr(room, name, _unasked)
    monkeypatch.setattr(kernels, "TRACES", tmp_path / "no traces")
    return tmp_path


def _unasked(*_: object) -> None:
    raise AssertionError("nobody asked for this part")


def ran(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["kernels.py", *arguments])
    kernels.ended_plainly(kernels.main)


def steps(folder: Path, option: str = "dp4", device: str = "h100") -> None:
    (folder / "devices.yaml").write_text(SHEETS)
    (folder / "steps.csv").write_text(STEPS.format(option=option, device=device))
    (folder / "models").mkdir()
    (folder / "models" / "small.json").write_text(json.dumps(GPT2))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "holds nothing to judge"),
        ({"gemm.csv": GEMM}, "neither devices.json nor devices.yaml"),
        ({"gemm.csv": GEMM, "devices.yaml": "h100: [1"}, "devices.yaml cannot be read"),
        ({"gemm.csv": GEMM, "devices.yaml": ""}, "devices.yaml cannot be read"),
        ({"gemm.csv": GEMM, "devices.json": '{"h100": {}}'}, "lacks.*SingleFLOPsMM"),
        ({"gemm.csv": GEMM, "devices.yaml": "l4: {preset: l4}\n"}, "has no sheet; it has l4"),
        ({"gemm.csv": "device,m\nh100,1\n", "devices.yaml": SHEETS}, "gemm.csv, line 2 .*'n'"),
        ({"gemm.csv": "device,ms\n", "devices.yaml": SHEETS}, "have no rows"),
        ({"gemm.csv.gz": "no gzip", "devices.yaml": SHEETS}, "gemm.csv.gz, line 1 cannot be read"),
    ],
)
def test_tables_that_cannot_be_judged_end_in_a_sentence(
    files: dict[str, str], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.raises(SystemExit, match=said):
        ran(monkeypatch, "--tables", str(folder))


@pytest.mark.parametrize(
    ("option", "device", "said"),
    [("fusion+dp4", "h100", "line 2: option 'fusion.dp4'"), ("dp4", "l4", "names device 'l4'")],
)
def test_steps_that_cannot_be_forecast_are_named_by_their_line(
    option: str, device: str, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps(folder, option, device)
    with pytest.raises(SystemExit, match=said):
        ran(monkeypatch, "--test", str(folder))


def test_a_model_without_a_configuration_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps(folder)
    (folder / "models" / "small.json").unlink()
    with pytest.raises(SystemExit, match=r"small.json.* it is not there"):
        ran(monkeypatch, "--test", str(folder))


def test_steps_on_four_gpus_are_judged_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps(folder)
    ran(monkeypatch, "--test", str(folder), "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["test_multi_mean"] == told["test_steps_mean"] > 0


@pytest.mark.parametrize("option", ["--test", "--tables", "--data"])
def test_a_folder_that_is_not_there_is_named(
    option: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="nowhere is no folder"):
        ran(monkeypatch, option, str(folder / "nowhere"))


def test_constants_that_are_none_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "c.npz").write_text("none")
    with pytest.raises(SystemExit, match=r"c.npz holds no constants of forecasts"):
        ran(monkeypatch, "--tables", str(folder), "--constants", str(folder / "c.npz"))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "no model on two devices"),
        (("h100_a.json.gz", "mi300x_b.json.gz"), "models found: a, b"),
        (("h100_a.json.gz", "nothing_a.json.gz"), "nothing"),
    ],
)
def test_traces_without_pairs_are_refused(
    names: tuple[str, ...], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in names:
        (folder / name).touch()
    with pytest.raises(SystemExit, match=said):
        ran(monkeypatch, "--data", str(folder))


def test_pairs_that_are_given_are_all_that_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"error": 0.1, "kept": 0.3, "inside": True, "by_class": {}, "measured_ms": 1.0}
    for name in ("h100_a.json.gz", "mi300x_a.json.gz"):
        (folder / name).touch()
    monkeypatch.setattr(kernel_traces, "device_rows", lambda _: [row])
    ran(monkeypatch, "--data", str(folder), "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["device_error_mean"], told["device_worse_than_kept"]) == (0.1, 0)
    assert "flops_error" not in told


def test_figures_of_a_folder_are_not_kept_as_if_they_were_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="2"):
        ran(monkeypatch, "--data", str(folder), "--save")
