"""What is kept in benchmarks/results was measured on a quiet machine."""

import math

import pytest

from benchmarks import measure


def test_a_busy_machine_is_waited_for_and_then_given_up() -> None:
    assert measure.settled(math.inf, 0.0)
    assert not measure.settled(-1.0, 0.0)


def test_nothing_is_kept_beside_other_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "QUIET", -1.0)  # no machine is as quiet as that
    monkeypatch.setattr(measure, "PATIENCE_S", 0.0)
    assert not measure.parser("").parse_args([]).save
    with pytest.raises(SystemExit):
        measure.parser("").parse_args(["--save"])
    assert "measure without --save" in capsys.readouterr().err


def test_what_is_measured_on_a_quiet_machine_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "QUIET", math.inf)
    assert measure.parser("").parse_args(["--save"]).save
