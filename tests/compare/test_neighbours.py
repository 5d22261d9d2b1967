"""What other programs ran beside a run's steps."""

from collections.abc import Sequence

from paceline.compare.neighbours import others_ns
from paceline.record.sidecar import Counts, Data, Mode, Record, RecordedHost, Sidecar, Step

MS = 1_000_000
MODES = (Mode.WARMUP, Mode.PLAIN, Mode.PLAIN, Mode.RECORDED, Mode.PLAIN)


def rank(
    number: int,
    busy_ms: Sequence[int] = (100,) * len(MODES),
    boot: str = "one",
    more: Sequence[Record] = (),
    cores: int = 2,
) -> Sidecar:
    """Steps of 90 ms of which the process ran 40; at the end of each the machine told so much."""
    steps = [
        Step(at, 90 * MS * at, 90 * MS * (at + 1), mode, 40 * MS, counts=Counts(busy_ns=busy * MS))
        for at, (mode, busy) in enumerate(zip(MODES, busy_ms))
    ]
    host = RecordedHost(number, 2, host=f"host-{number}", boot=boot, cores=cores)
    return Sidecar(records=[host, *steps, *more], truncated=False)


def test_what_no_rank_ran_others_did() -> None:
    assert others_ns([rank(0), rank(1)]) == 20 * MS


def test_between_two_readings_programs_run_evenly() -> None:
    assert others_ns([rank(0, (0, 200, 0, 200, 100)), rank(1)]) == 20 * MS


def test_steps_behind_the_last_reading_are_not_told() -> None:
    assert others_ns([rank(0, (100, 100, 100, 100, 0)), rank(1)]) == 20 * MS
    assert others_ns([rank(0, (100, 0, 0, 0, 0)), rank(1)]) is None


def test_what_ran_beside_recorded_steps_does_not_count() -> None:
    assert others_ns([rank(0, (80, 80, 80, 180, 80)), rank(1)]) == 0


def test_others_that_have_cores_of_their_own_take_none() -> None:
    assert others_ns([rank(0, cores=8), rank(1, cores=8)]) == 0


def test_hosts_of_a_lab_are_one_machine_and_machines_are_counted_apart() -> None:
    alone = [rank(0, boot="one"), rank(1, (90,) * len(MODES), boot="two")]
    assert others_ns(alone) == 60 * MS


def test_nothing_is_known_where_a_machine_did_not_count() -> None:
    assert others_ns([rank(0), rank(1, (0,) * len(MODES), boot="two")]) is None
    assert others_ns([]) is None


def test_workers_of_a_loader_are_the_jobs_own_and_cannot_be_told() -> None:
    assert others_ns([rank(0, more=[Data(7, 0, 1, workers=2)]), rank(1)]) is None
