"""What several workloads teach together."""

from dataclasses import replace
from typing import Any

from paceline.bench.point import Report
from paceline.bench.taught import taught


def told(*points: Any) -> list[str]:
    report = Report("m", {}, {}, 1.0, points)
    return [f"{each.text} | {each.command}" for each in taught(report)]


def test_saturation_counts_workloads_and_names_those_that_still_grow(point: Any) -> None:
    curves = (point(8, 50), point(16, 99), point(32, 100), point(8, 50, name="gnn"),
              point(16, 100, name="gnn"))  # fmt: skip
    assert told(*curves)[0] == (
        "1 of 2 workloads saturate at a batch below the largest tried (vit at 16); the throughput "
        "of gnn still grows there | paceline bench run vit gnn"
    )


def test_what_holds_the_memory_is_counted_over_workloads(point: Any) -> None:
    said = told(point(8, mb=40), point(8, mb=330, name="gnn"), point(8, mb=99, name="moe"))
    assert (
        "the memory peak at the largest batch is mostly activations of 2 (gnn, moe); weights of 1 "
        "(vit) | paceline bench run vit gnn moe"
    ) in said


def test_a_figure_that_is_alike_everywhere_teaches_nothing(point: Any) -> None:
    assert not [text for text in told(point(8), point(8, name="gnn")) if "loading" in text]


def test_workloads_are_set_apart_by_the_ends_of_each_figure(point: Any) -> None:
    assert (
        "activations' share of the memory peak: from 50 % (gnn) to 90 % (vit), in the median 70 % "
        "| paceline bench run gnn vit"
    ) in told(point(8, mb=66, name="gnn"), point(8, mb=330))


def test_a_figure_that_lies_apart_is_told_with_its_ends(point: Any) -> None:
    plays = point(8, name="actor_critic")
    plays = replace(plays, usage=replace(plays.usage, data=0.6))
    assert (
        "time of loading data: from 5 % (vit) to 60 % (actor_critic), in the median "
        "32 % | paceline bench run vit actor_critic"
    ) in told(point(8), plays)


def test_a_population_is_set_against_time_steps_at_a_batch_that_both_have(point: Any) -> None:
    names = {"spiking": 10, "spiking_population": 70}
    said = told(*(point(64, rate, name=name) for name, rate in names.items()),
                point(128, 90, name="spiking"))  # fmt: skip
    assert [text for text in said if "7.0 times as many samples a second" in text]


def test_two_workers_are_set_against_one(point: Any) -> None:
    said = told(point(8, 100), point(8, 190, workers=2), point(8, 50, name="moe"),
                point(8, 60, name="moe", workers=2))  # fmt: skip
    assert said[-1] == (
        "throughput of 2 workers over that of one: from 1.20 times (moe) to 1.90 times (vit), in "
        "the median 1.55 times | paceline bench run moe vit --workers 1 2"
    )


def test_one_workload_alone_teaches_nothing_of_others(point: Any) -> None:
    assert told(point(8), point(16)) == []
