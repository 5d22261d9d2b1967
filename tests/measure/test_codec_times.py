"""When a codec pays, by hand; and graphs priced by what was measured of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.machine import Machine
from paceline.cost import Basis, prices
from paceline.graph import DeviceKind, DType, Graph
from paceline.graph.synthetic import TrainingJob, training
from paceline.measure import (
    Adding,
    Calibration,
    CodecTimes,
    MeasureError,
    OpTimes,
    Sweep,
    load,
    pays_below,
    save,
    summary,
)
from paceline.predict import Question, predict
from paceline.strategies import parse

LINE = Sweep((1e6, 2e6, 4e6), (1e6, 2e6, 4e6))
GATHERED = CodecTimes(
    "topk", DType.INT32, True, (100, 1000), (80, 800),
    (OpTimes("pack topk", (2480, 24800), (900.0, 9000.0)),
     OpTimes("unpack topk", (560, 5600), (100.0, 1000.0))),
)  # fmt: skip
SUMMED = CodecTimes(
    "fp16", DType.FLOAT16, False, (100, 1000), (200, 2000),
    (OpTimes("pack fp16", (1400, 14000), (50.0, 500.0)),
     OpTimes("unpack fp16", (600, 6000), (50.0, 500.0))),
)  # fmt: skip
SLOWER = Adding(DType.FLOAT16, (200.0, 2000.0), (300.0, 3000.0), (200.0, 2000.0))
MADE = Calibration("here", 2, 2, LINE, LINE, LINE, LINE, None, codecs=(GATHERED, SUMMED),
                   adding=(SLOWER,))  # fmt: skip


def test_a_codec_pays_below_the_rate_at_which_it_saves_as_long_as_it_works() -> None:
    # two workers: plain sends 2 * 1/2 * 4000 bytes; top-k 1/2 * 2 * 800 in 10,000 ns of work
    assert pays_below(GATHERED) == pytest.approx((4000 - 800) / 10_000e-9)
    # half precision sends 2000 in 1,000 ns, and the library adds it in 1,000 ns more
    assert pays_below(SUMMED) == pytest.approx(2000 / 1000e-9)
    assert pays_below(SUMMED, slower=SLOWER) == pytest.approx(2000 / 2000e-9)


def test_gathered_payloads_grow_with_the_workers_until_a_codec_never_pays() -> None:
    # the line of unpacking goes on: 800 bytes more for each further worker, at 900 / 5040 ns
    four = GATHERED.spent_ns(4)
    assert four == pytest.approx(9000 + 1000 + 1600 * 900 / 5040)
    assert pays_below(GATHERED, 12) == 0.0
    with pytest.raises(MeasureError, match="exchanges no gradients"):
        pays_below(GATHERED, 1)


def test_what_was_measured_of_codecs_is_kept_and_shown(tmp_path: Path) -> None:
    save(MADE, tmp_path / "here.json")
    assert load(tmp_path / "here.json") == MADE
    shown = summary(MADE)["codecs"]
    assert shown["topk"]["pack_ms"] == 0.01
    assert shown["fp16"]["pays_below_bits_per_s"] == round(8 * MADE.pays_below()["fp16"])


def test_packing_takes_its_measured_time_with_the_slower_addition_behind_it() -> None:
    changed = parse("fp16").transform(training(TrainingJob(layers=1)))
    cluster = Cluster((Host("a", MADE.device()), Host("b", MADE.device())), Link.both_ways(1e9))
    found = prices(changed, cluster, MADE.rates())
    packs, unpacks = rows(changed, "pack fp16"), rows(changed, "unpack fp16")
    touched = changed.ops.size_bytes
    assert np.allclose(found.dur_ns[packs], touched[packs] / 28, rtol=0.01)
    assert np.allclose(found.dur_ns[unpacks], touched[unpacks] * 1500 / 6000, rtol=0.35)
    assert set(found.basis[packs]) == {Basis.MEASURED}


def test_workers_that_share_cores_pack_as_long_as_where_all_cores_do() -> None:
    slow = replace(GATHERED, ops=(replace(GATHERED.ops[0], times_ns=(1800.0, 18000.0)),
                                  GATHERED.ops[1]))  # fmt: skip
    made = replace(MADE, crowded_codecs=(slow, SUMMED))
    changed = parse("topk").transform(training(TrainingJob(layers=1)))
    cluster = Cluster((Host("a", MADE.device()), Host("b", MADE.device())), Link.both_ways(1e9))
    packs, machine = rows(changed, "pack topk"), Machine(2.0)

    def packing_ns(question: Question) -> int:
        return int(predict(changed, (), cluster, question).timeline.dur_ns[packs].sum())

    alone = packing_ns(Question(calibration=made))
    assert packing_ns(Question(machine, made)) == pytest.approx(2 * alone, rel=0.01)
    assert packing_ns(Question(machine, MADE)) == pytest.approx(alone, rel=0.01)


def rows(graph: Graph, name: str) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.flatnonzero(graph.ops.name == graph.names.index(name))


@pytest.mark.parametrize(("rate", "costs"), [(1e6, False), (1e13, True)])
def test_a_prediction_says_where_a_codec_costs_time(rate: float, costs: bool) -> None:
    device = Device("slow", DeviceKind.CPU, memory_bytes_per_s=1e9)
    hosts = tuple(Host(name, device) for name in "ab")
    calibration = replace(MADE, machine="slow")
    cluster = Cluster(hosts, Link.both_ways(rate))
    job = training(TrainingJob(layers=2))
    found = predict(job, ["topk"], cluster, Question(calibration=calibration))
    told = [reason for reason in found.rests_on if "costs you time here" in reason]
    assert bool(told) is costs
