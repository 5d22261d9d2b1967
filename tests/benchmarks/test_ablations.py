"""Parts of the ablations are one contender's rounds, in one order."""

from benchmarks.speed.ablations import SETTINGS, case, joined

from paceline.wire.contenders import LOSSLESS, TCP, Timed, timed_from_json, timed_to_json


def part(*round_ms: int) -> list[dict[str, object]]:
    lost = tuple(0 for _ in round_ms)
    return timed_to_json(
        Timed(one, tuple(1_000_000 * ms for ms in round_ms), lost, {"sent": len(round_ms)})
        for one in (TCP[0], LOSSLESS)
    )


def test_parts_are_joined_contender_by_contender() -> None:
    parts = [timed_from_json(each) for each in (part(200, 170), part(180))]
    first, second = map(joined, zip(*parts))
    assert (first.contender, second.contender) == (TCP[0], LOSSLESS)
    assert first.round_ns == (200_000_000, 170_000_000, 180_000_000)
    assert second.counters == {"sent": 3}


def test_a_case_tells_percentiles_over_all_parts_and_the_loads_they_met() -> None:
    rows = [{"timed": part(200, 170), "load": 9.0}, {"timed": part(180), "load": 1.0}]
    told = case(SETTINGS["none"], rows)
    assert told["loads"] == [1.0, 9.0]
    assert [row["p50_ms"] for row in told["rows"]] == [180.0, 180.0]
    assert [row["max_ms"] for row in told["rows"]] == [200.0, 200.0]
    assert [row["rounds"] for row in told["rows"]] == [3, 3]


def test_a_part_that_the_machine_stood_still_in_leaves_the_median_of_parts_alone() -> None:
    rows = [{"timed": part(170, 172), "load": 1.0} for _ in range(2)]
    rows.append({"timed": part(170, 2400), "load": 1.0})
    for row in case(SETTINGS["none"], rows)["rows"]:
        assert row["part_p99_ms"] < 173 < row["p99_ms"]
