"""`paceline verify` in a lab: its verdict is in the history."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from paceline.cli import main
from paceline.history import Ground, History, Kind, lessons

pytest.importorskip("torch")


@pytest.mark.slow
@pytest.mark.net
@pytest.mark.live
@pytest.mark.needs("root", "namespaces", "iproute2")
def test_a_verdict_is_kept_and_teaches(
    ddp_recording: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PACELINE_HISTORY", str(tmp_path / "history.sqlite"))
    (tmp_path / "cluster.yaml").write_text("name: office\nhosts: 2\nlink: {rate: 200Mbps}\n")
    words = ["verify", str(ddp_recording.folder), "--cluster", str(tmp_path / "cluster.yaml")]
    assert main([*words, "--with", "fp16", "--steps", "4", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (entry,) = History(tmp_path / "history.sqlite").entries()
    assert entry.kind is Kind.VERDICT
    assert entry.strategies == ("fp16",)
    assert entry.error == told["error"]
    assert entry.measured is not None
    assert entry.measured.by_class == told["measured"]["by_class_ns"]
    (lesson,) = lessons([entry])
    assert lesson.ground is Ground.SHARED
    assert lesson.ratio == pytest.approx(-math.log1p(told["error"]))
    assert 0 < lesson.leans[1] <= 1.1
