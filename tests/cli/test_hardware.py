"""`paceline hardware`: a search with its options, its progress, and what it refuses."""

import json

import pytest

from paceline.cli import main
from paceline.engine import native
from paceline.place.hardware import BERT_LARGE, AcceleratorFleet, SearchSettings, search

pytest.importorskip("ortools", reason="CP-SAT schedules the finalists")
needs_core = pytest.mark.skipif(native() is None, reason="the search needs the native core")
TINY = ["hardware", "tiny:2,64,4,32,1000", "--devices", "8", "--global-batch", "64"]
SHORT = ["--time-limit", "2", "--finalists", "1", "--patience", "1"]


@needs_core
def test_the_design_found_is_no_slower_than_known_ones(capsys) -> None:
    assert main([*TINY, *SHORT, "--compare", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (row,) = data["models"]
    assert data["area_mm2"] <= 279
    assert row["baselines"]
    assert row["samples_per_s"] >= max(row["baselines"].values())
    assert sum(stage["width"] for stage in row["stages"]) * row["replicas"] <= 8


@needs_core
def test_the_tables_name_design_plan_and_how_the_search_ended(capsys) -> None:
    assert main([*TINY, *SHORT]) == 0
    out = capsys.readouterr().out
    assert "tensor cores" in out
    assert "samples/s" in out
    assert "ended by: " in out


@needs_core
@pytest.mark.slow
def test_a_smaller_area_never_trains_faster(capsys) -> None:
    rates = []
    for area in ("40", "20"):
        assert main([*TINY, *SHORT, "--area", area, "--json"]) == 0
        rates.append(json.loads(capsys.readouterr().out)["samples_per_s"])
    assert rates[1] <= rates[0]


@needs_core
def test_where_nothing_fits_the_answer_says_what_to_allow(capsys) -> None:
    huge = ["hardware", "huge:2,65536,1,32,1000", "--devices", "1", "--hbm", "1"]
    assert main([*huge, *SHORT, "--area", "20"]) == 1
    assert "allow more --devices, --hbm or --area" in capsys.readouterr().out


@pytest.mark.parametrize("model", ["bert", "x:1,2,3", "x:1,2,3,4,five", "x:0,1,1,1,1"])
def test_a_model_that_is_none_is_refused_with_the_form(model: str, capsys) -> None:
    assert main(["hardware", model]) == 1
    assert "NAME:LAYERS,HIDDEN,HEADS,SEQUENCE,VOCABULARY" in capsys.readouterr().err


@needs_core
def test_progress_is_told_after_each_bucket() -> None:
    told = []
    settings = SearchSettings(seconds=2.0, finalists=1, patience=1, watch=told.append)
    found = search((BERT_LARGE,), AcceleratorFleet(devices=16), settings)
    assert len(told) == found.buckets
    assert [at.considered for at in told] == sorted(at.considered for at in told)
    assert "samples/s" in str(told[-1])
