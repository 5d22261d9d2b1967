"""What a rank's recorder writes, and what is left of it when the worker dies."""

from pathlib import Path

import msgspec
import pytest

from paceline.machine import Pulse
from paceline.record import sidecar
from paceline.record.sidecar import Collective, CoreTime, Counts, Mode, Pulsed, RecordedHost, Step

HOST = RecordedHost(rank=1, world_size=2, links={"eth0": 10_000_000_000})
STEP = Step(index=3, begin_ns=10, end_ns=30, mode=Mode.RECORDED)
SENT = Collective(order=0, group="0", sequence=7, op="send", peer=0, size_bytes=64)


def written(folder: Path, *parts: bytes) -> Path:
    path = folder / sidecar.facts_name(1)
    path.write_bytes(b"".join(parts))
    return path


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = written(tmp_path, *map(sidecar.encode, (HOST, STEP, SENT)))
    assert sidecar.read(path).records == [HOST, STEP, SENT]


def test_each_record_is_one_line_so_that_a_killed_worker_loses_at_most_one(tmp_path: Path) -> None:
    path = written(tmp_path, sidecar.encode(HOST), sidecar.encode(STEP)[:-5])
    found = sidecar.read(path)
    assert found.records == [HOST]
    assert found.truncated


def test_a_whole_file_is_not_called_truncated(tmp_path: Path) -> None:
    assert not sidecar.read(written(tmp_path, sidecar.encode(HOST))).truncated


def test_a_host_is_named_by_its_processors_model_or_by_its_gpu(tmp_path: Path) -> None:
    plain = RecordedHost(rank=0, world_size=1, processor="EPYC 7763", cores=2)
    card = RecordedHost(
        rank=0, world_size=1, processor="EPYC 7763", cores=2, device="NVIDIA H100 NVL"
    )
    assert (plain.machine, plain.host_machine) == ("EPYC 7763, 2 cores",) * 2
    assert (card.machine, card.host_machine) == ("NVIDIA H100 NVL, 2 cores", "EPYC 7763, 2 cores")


def test_a_host_of_an_earlier_version_which_told_its_architecture_alone_has_no_name(
    tmp_path: Path,
) -> None:
    line = b'{"is":"host","rank":0,"world_size":1,"cpu":"x86_64","cores":2}\n'
    (found,) = sidecar.read(written(tmp_path, line)).of(RecordedHost)
    assert (found.machine, found.host_machine, found.cores) == ("", "", 2)


def test_records_are_found_by_their_type(tmp_path: Path) -> None:
    path = written(tmp_path, *map(sidecar.encode, (HOST, STEP, SENT, STEP)))
    assert sidecar.read(path).of(Step) == [STEP, STEP]


def test_a_line_that_is_no_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(msgspec.ValidationError):
        sidecar.read(written(tmp_path, b'{"is":"unheard of"}\n'))


def test_what_the_machine_counted_comes_back_as_it_was_written(tmp_path: Path) -> None:
    counted = Step(
        index=1, begin_ns=0, end_ns=9, mode=Mode.PLAIN, counts=Counts(run_ns=8, delay_ns=1)
    )
    got = CoreTime(thread=7, begin_ns=0, end_ns=9, run_ns=8, delay_ns=1, turns=2)
    pulse = Pulsed(Pulse(5, 100, 200, 50))
    path = written(tmp_path, *map(sidecar.encode, (counted, got, pulse)))
    assert sidecar.read(path).records == [counted, got, pulse]


def test_a_step_of_an_earlier_version_has_no_counts_and_counts_as_steady(tmp_path: Path) -> None:
    line = b'{"is":"step","index":3,"begin_ns":10,"end_ns":30,"mode":"recorded"}\n'
    (found,) = sidecar.read(written(tmp_path, line)).of(Step)
    assert found.counts is None
    assert found.steady


def test_a_step_in_which_the_clock_was_set_or_the_machine_slept_is_not_steady() -> None:
    for counts in (Counts(jumped_ns=-5), Counts(slept_ns=5)):
        assert not Step(index=0, begin_ns=0, end_ns=1, mode=Mode.PLAIN, counts=counts).steady
