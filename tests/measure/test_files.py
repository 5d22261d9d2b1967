"""Calibrations in files: what is saved is read, an earlier format too, anything else refused."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from paceline.graph import DType
from paceline.graph.variants import Ratio, Variant
from paceline.machine import Pulse
from paceline.measure import (
    Calibration,
    CodecTimes,
    Constant,
    Handling,
    MeasureError,
    OpTimes,
    Overlap,
    SharedCores,
    Sweep,
    load,
    save,
    summary,
)

LINE = Sweep((1e6, 2e6, 4e6), (1e6, 2e6, 4e6))
SHARED = SharedCores(
    2,
    4,
    0.4,
    0.3,
    Constant(4.9, 4.9, 5.2),
    Constant(2e6, 1.8e6, 2.2e6),
    None,
    Constant(6e4, 0, 9e4),
)
MADE = Calibration(
    "here",
    2,
    2,
    LINE,
    LINE,
    LINE,
    LINE,
    Overlap(1.5, 1.2),
    SHARED,
    "2026-01-02T03:04:05+00:00",
    ratios=(Ratio("aten::mm", Variant.BF16, 0.5, 0.4, 0.6),),
    handling=Handling(call_ns=2e5, message_ns=1e5, byte_ns=0.7),
    pulse=Pulse(5, 70_000, 417_000, 251_000),
    codecs=(
        CodecTimes(
            "fp16", DType.FLOAT16, False, (9, 18), (18, 36),
            (OpTimes("pack fp16", (99, 198), (7.0, 14.0)),),
        ),
    ),
)  # fmt: skip


def test_what_is_saved_is_read(tmp_path: Path) -> None:
    save(MADE, tmp_path / "here.json")
    assert load(tmp_path / "here.json") == MADE


def test_the_pulse_of_a_calibration_is_shown() -> None:
    assert summary(MADE)["pulse_us"] == {"arithmetic": 70.0, "memory": 417.0, "wakeup": 251.0}
    assert "pulse_us" not in summary(replace(MADE, pulse=None))


def test_a_calibration_of_another_machine_is_doubted_and_says_which_it_is() -> None:
    other = MADE.doubt("EPYC 7763, 2 cores")
    assert "'here'" in other
    assert "'EPYC 7763, 2 cores'" in other
    assert MADE.doubt("here") == ""
    assert MADE.doubt("") == "", "nobody knows on which machine the job runs"


def test_a_file_of_the_first_version_is_read_without_what_it_did_not_measure(
    tmp_path: Path,
) -> None:
    document = {"version": 1, **asdict(replace(MADE, ratios=(), codecs=()))}
    for later in ("shared", "date", "ratios", "codecs", "adding", "pulse"):
        del document[later]
    (tmp_path / "old.json").write_text(json.dumps(document))
    found = load(tmp_path / "old.json")
    assert found.shared is None
    assert found.pulse is None
    assert found.rates() == replace(MADE, codecs=()).rates()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "no calibration of format 2"),
        ('{"format": 3}', "no calibration of format 2"),
        ('{"format": 2}', "no whole calibration"),
        ("[]", "cannot read"),
        ("\xff", "cannot read"),
    ],
)
def test_a_foreign_file_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "foreign.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(MeasureError, match=reason):
        load(tmp_path / "foreign.json")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="cannot read"):
        load(tmp_path / "missing.json")


def test_a_constant_outside_its_interval_is_refused(tmp_path: Path) -> None:
    save(MADE, tmp_path / "here.json")
    document = json.loads((tmp_path / "here.json").read_text())
    document["shared"]["turn_ns"]["low"] = 3e6
    (tmp_path / "here.json").write_text(json.dumps(document))
    with pytest.raises(MeasureError, match="lie in its interval"):
        load(tmp_path / "here.json")
