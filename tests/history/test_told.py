"""Entries that commands make: a prediction, a trial, a verdict, of one job."""

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.cluster.machine import Machine
from paceline.graph import Facts, Graph, Parameter
from paceline.graph.synthetic import Ring, ring
from paceline.history import (
    Ground,
    Kind,
    Subject,
    host_machine_of,
    prediction_entry,
    trial_entry,
    verdict_entry,
)
from paceline.predict import Correction, Question, predict
from paceline.record.sidecar import RecordedHost, encode, facts_name
from paceline.strategies import parse
from paceline.verify import Measured, Verdict


@pytest.fixture
def graph() -> Graph:
    made = ring(Ring(ranks=2, layers=4, tensors=2, jitter=0.1))
    return replace(made, facts=Facts(2, (Parameter("w", 4_000_000),)))


def test_a_verdict_and_a_trial_are_of_the_job_that_was_predicted(
    graph: Graph, tmp_path: Path
) -> None:
    plan = (parse("scale(select='kind=compute', factor=0.5)"),)
    question = Question(correction=Correction(1.1, 0.9), lean=True)
    subject = Subject(graph, tmp_path / "run", plan, None, question)
    found = predict(graph, plan, None, question)
    seen = Measured((100, 110, 120), {"forward": 40})
    guessed, proved, tried, failed = (
        prediction_entry(subject, found),
        verdict_entry(subject, Verdict(found, seen)),
        trial_entry(subject, found, seen, "kept"),
        trial_entry(subject, found, None, "failed: out of memory"),
    )
    assert len({each.job for each in (guessed, proved, tried, failed)}) == 1
    assert guessed.measured is None
    assert guessed.predicted is not None
    assert guessed.predicted.corrected_work == 1.1
    assert guessed.predicted.ground is Ground.RECORDED
    assert proved.measured == tried.measured
    assert proved.measured is not None
    assert (proved.measured.step_ns, proved.measured.steps) == (110, 3)
    assert proved.error == found.step_ns / 110 - 1
    assert (tried.kind, tried.outcome) == (Kind.TRIAL, "kept")
    assert (failed.measured, failed.outcome) == (None, "failed: out of memory")


def test_a_verdict_is_filed_under_the_machine_that_was_measured(
    graph: Graph, tmp_path: Path
) -> None:
    on_cores = Question(Machine(2.0), here="the lab's, 2 cores")
    subject = Subject(graph, tmp_path / "run", (), None, on_cores)
    found = predict(graph, (), None, Question())
    there = verdict_entry(subject, Verdict(found, Measured((100,), {}, machine="arm, 8 cores")))
    untold = verdict_entry(subject, Verdict(found, Measured((100,), {})))
    assert (there.job.machine, untold.job.machine) == ("arm, 8 cores", "the lab's, 2 cores")
    assert replace(there.job, machine="") == replace(untold.job, machine="")


def test_a_job_with_its_own_machines_is_of_the_one_that_was_recorded(
    graph: Graph, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    host = RecordedHost(rank=0, world_size=2, processor="EPYC 7763", cores=2)
    (run / facts_name(0)).write_bytes(encode(host))
    subject = Subject(graph, run, (), None, Question(here="of no matter"))
    assert subject.job(2).machine == host_machine_of(run) == "EPYC 7763, 2 cores"
    assert host_machine_of(tmp_path / "nowhere") == ""


def test_a_correction_multiplies_work_and_communication_apart(graph: Graph) -> None:
    plain = predict(graph, (), None, Question(lean=True))
    longer = predict(graph, (), None, Question(correction=Correction(work=1.5)))
    talks = predict(graph, (), None, Question(correction=Correction(communication=1.5)))
    assert plain.leans is not None
    assert 0 < plain.leans.work < 1
    assert plain.leans.work + plain.leans.communication == pytest.approx(1, abs=0.05)
    assert longer.by_class["communication"] == plain.by_class["communication"]
    assert talks.by_class["communication"] == pytest.approx(1.5 * plain.by_class["communication"],
                                                           rel=0.01)  # fmt: skip
    assert longer.low_ns > plain.low_ns
    assert "corrected by earlier runs: work +50.0%, communication +0.0%" in longer.rests_on
