"""The summary and its text, on a job small enough to check by hand."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from paceline.graph import Collective, GraphBuilder, LaneKind, MemoryCategory, OpKind, Phase
from paceline.predict import predict
from paceline.replay import replay
from paceline.report import Summary, summarise
from paceline.report.run import summarise_run
from paceline.report.text.breakdown import bar, shown_ranks
from paceline.report.text.headline import headline
from paceline.report.text.prediction import prediction_table
from paceline.report.text.quantities import duration, share, size
from paceline.report.text.step import show_summary


def job() -> Summary:
    """Rank 0 computes 4 us, rank 1 1 us; both then reduce for 5 us.

    Rank 0:  matmul 0-4, reduce 4-9           compute 4, transfer 5
    Rank 1:  matmul 0-1, waits 1-4, reduce 4-9  compute 1, waiting 3, transfer 5
    The path is matmul of rank 0 (4), then the reduce (5): 9 us. Rank 0's matmul takes 3 kB.
    """
    b = GraphBuilder()
    group, joined = b.group("world", (0, 1)), b.instance()
    for rank, busy_ns in ((0, 4_000), (1, 1_000)):
        lane = b.lane(rank, "stream")
        matmul = b.op("matmul", lane, busy_ns, layer=f"fc{rank}")
        reduce = b.op(
            "reduce",
            lane,
            5_000,
            kind=OpKind.COLLECTIVE,
            collective=Collective.ALL_REDUCE,
            group=group,
            instance=joined,
        )
        if rank == 0:
            b.allocate(matmul, 3_000, MemoryCategory.ACTIVATIONS)
            b.allocate(reduce, -3_000, MemoryCategory.ACTIVATIONS, at_end=True)
    return summarise(replay(b.build()))


def test_categories_are_told_at_their_peaks_over_all_devices() -> None:
    b = GraphBuilder()
    for rank, sizes in enumerate(((300, -300, 200), (100, 50, -150), ())):
        lane = b.lane(rank, "stream")
        for taken in sizes:
            b.allocate(b.op("mm", lane, 5), taken, MemoryCategory.ACTIVATIONS)
        b.allocate(b.op("mm", lane, 5), 40, MemoryCategory.WEIGHTS)
        b.allocate(b.op("mm", lane, 5), -40, MemoryCategory.GRADIENTS)
    told = summarise_run(replay(b.build())).memory_by_category
    assert told == {"activations": 300 + 150, "weights": 3 * 40}


def test_the_states_of_each_rank_sum_to_the_step() -> None:
    summary = job()
    assert summary.step_ns == 9_000
    assert [sum(shares.values()) for shares in summary.rank_shares.values()] == [9_000, 9_000]
    assert summary.rank_shares[1]["waiting_ns"] == 3_000


def test_the_path_is_told_by_kind_layer_and_op() -> None:
    summary = job()
    assert summary.path_by_kind == {"collective": 5_000, "compute": 4_000}
    assert summary.path_by_layer == {"fc0": 4_000}
    assert [(op.name, op.count, op.share_ns) for op in summary.path_ops] == [
        ("reduce", 1, 5_000),
        ("matmul", 1, 4_000),
    ]


def test_lanes_of_one_name_are_taken_together() -> None:
    (use,) = job().lanes
    assert (use.name, use.count) == ("stream", 2)
    assert (use.busy_least, use.busy_most) == (pytest.approx(6 / 9), pytest.approx(1))
    assert use.waiting_mean == pytest.approx(3 / 9 / 2)


def test_the_memory_peak_names_its_holders() -> None:
    (peak,) = job().memory
    assert (peak.device, peak.peak_bytes, peak.peak_ns) == ("rank 0", 3_000, 0)
    assert peak.largest == (("matmul", 3_000),)


def test_the_headline_says_how_long_threads_waited_for_a_core() -> None:
    b = GraphBuilder()
    for rank, waited_ns in ((0, 10), (1, 8)):
        lane = b.lane(rank)
        work = b.op("matmul", lane, 100 - waited_ns)
        b.op("waiting for a core", lane, waited_ns, kind=OpKind.CORE_WAIT, after=[work])
        b.op("other", b.lane(rank, kind=LaneKind.COMM_THREAD), 50, kind=OpKind.CORE_WAIT)
    summary = summarise(replay(b.build()))
    assert summary.core_wait_ns == 9
    assert "9 % waiting for a core." in headline(summary)
    assert "waiting for a core" not in headline(job())


def test_the_headline_says_on_what_the_step_hangs_and_who_is_waited_for() -> None:
    assert headline(job()) == (
        "Step 9.00 us on 2 ranks, 4 ops. Critical path: collective 55.6 %, compute 44.4 %. "
        "Rank 1 waits 3.00 us for others, rank 0 0 ns: the work is uneven."
    )


def shown(value: object) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(value)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_whole_answer_fits_eighty_columns() -> None:
    out = io.StringIO()
    show_summary(job(), Console(file=out, width=80, color_system=None))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines[2:6] == [
        "where each rank's time goes:  █ compute  ▒ transfer  ░ waiting",
        "rank                                           █     ▒     ░",
        "   0  ████████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒  44 %  56 %   0 %",
        "   1  ████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒░░░░░░░░░░░░  11 %  56 %  33 %",
    ]
    assert max(map(len, lines[1:])) <= 80
    assert "rank 0  3.00 kB             0 ns  matmul 3.00 kB" in lines


def test_a_prediction_stands_beside_what_was() -> None:
    b = GraphBuilder()
    b.op("matmul", b.lane(), 9_000, phase=Phase.FORWARD)
    before, after = (
        predict(b.build(), changes) for changes in ((), ["scale(select='', factor=0.5)"])
    )
    lines = shown(prediction_table(before, after))
    assert lines[1].split() == ["step", "9.00", "us", "4.50", "us", "-50.0", "%"]
    assert lines[2].split()[0] == "forward"


def test_a_bar_always_fills_its_width() -> None:
    states = ("exposed_compute_ns", "overlapped_ns", "exposed_transfer_ns")
    rest = {"waiting_ns": 0, "data_loading_ns": 0, "idle_ns": 1}
    for step in (4, 7, 100, 12345):
        shares = dict.fromkeys(states, (step - 1) // 3) | rest
        shares["idle_ns"] = step - 3 * ((step - 1) // 3)
        assert len("".join(glyphs for glyphs, _ in bar(shares, step))) == 36


def test_of_many_ranks_those_that_wait_least_and_most_are_shown() -> None:
    shares = {rank: {"waiting_ns": abs(rank - 50)} for rank in range(100)}
    ranks = shown_ranks(replace(job(), ranks=100, rank_shares=shares))
    assert ranks == [0, 1, 2, 3, *range(46, 54), 96, 97, 98, 99]


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1_000, "1.00 us"), (12_345_678, "12.3 ms"), (2**40, "1,100 s")],
)
def test_durations_have_three_digits_and_a_unit(ns: int, text: str) -> None:
    assert duration(ns) == text


def test_sizes_and_shares() -> None:
    assert (size(1_500_000), size(12)) == ("1.50 MB", "12 bytes")
    assert (share(1, 3), share(0, 3), share(1, 0)) == ("33.3 %", "", "")
