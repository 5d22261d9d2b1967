"""Constants that somebody fitted, in place of the shipped ones, wherever forecasts price."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paceline.cli import main
from paceline.cluster import Cluster, parse
from paceline.cluster.files import device
from paceline.cost import Basis, CostError, Rates, prices
from paceline.cost.decoder import site_of
from paceline.cost.domain import words
from paceline.cost.forecast import Constants, Learned, forecast, load, save, sheet_of, shipped
from paceline.cost.forecast.fitting import Effort
from paceline.cost.forecast.net import Learning
from paceline.cost.forecast.tables import samples
from paceline.graph import (
    UNPRICED,
    Collective,
    DType,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
)
from paceline.graph.facts import RecordedGpu
from paceline.graph.files import save_graph
from paceline.graph.work import Matrix, Recorded, matrix
from paceline.imagine.decoder import Product, decoder
from paceline.place.hybrid import PlanQuestion as PlanQuestion
from paceline.predict import Question, predict

KEY = "linear.bfloat16.nvidia"
PRODUCT = matrix(Matrix(1, 4096, 4096, 4096), DType.BFLOAT16)
ON_H100 = "hosts: {count: 1, device: h100}\nlink: ethernet-1g\n"
SHEETS = "h100: {preset: h100}\na100-80: {preset: a100-80}\n"
GEMM = "device,dtype,m,n,k,ms\n"


def slower(factor: float, *kinds: str) -> Constants:
    """The shipped constants, of a library that reaches so much less of every rate."""
    found = {}
    for kind in kinds or (KEY,):
        one = shipped().learned[kind]
        less = {name: value / factor for name, value in one.values.items() if name in _SHARES}
        found[kind] = replace(one, values={**one.values, **less}, known=None, net=None, devices=())
    return Constants(found, "my cluster", "2026-01-01")


_SHARES = ("arithmetic", "memory", "cache_rate", "link")


def product(dur_ns: int = UNPRICED) -> Graph:
    b = GraphBuilder(facts=Facts(world_size=1, gpus=(RecordedGpu("h100"),)))
    lane = b.lane(0, "work", kind=LaneKind.STREAM)
    told = {"flops": PRODUCT.flops, "size_bytes": PRODUCT.size_bytes}
    b.op("aten::mm", lane, dur_ns, dtype=DType.BFLOAT16, work=Recorded("aten::mm", PRODUCT),
         step=0, **told)  # fmt: skip
    return b.build()


def sums(ranks: int = 8) -> Graph:
    b = GraphBuilder()
    group, instance = b.group("all", range(ranks)), b.instance()
    for rank in range(ranks):
        b.op("sum", b.lane(rank=rank), 0, kind=OpKind.COLLECTIVE, group=group,
             collective=Collective.ALL_REDUCE, size_bytes=1 << 28, instance=instance)  # fmt: skip
    return b.build()


def on(text: str = ON_H100) -> Cluster:
    return parse(text)


def test_operators_are_priced_by_the_constants_that_are_given() -> None:
    plain, mine = (prices(product(), on(), Rates(constants=one)) for one in (None, slower(2)))
    assert mine.basis[0] == plain.basis[0] == Basis.FORECAST
    assert 1.5 < mine.dur_ns[0] / plain.dur_ns[0] < 3


def test_collectives_within_a_host_are_priced_by_the_constants_that_are_given() -> None:
    cluster = on("{hosts: {count: 1, system: dgx-h100}}")
    mine = slower(3, "domain.float16.nvidia")
    found = [prices(sums(), cluster, Rates(constants=one)).dur_ns[0] for one in (None, mine, None)]
    assert found[1] > 2 * found[0]
    assert found[2] == found[0], "nothing is left behind for who asks without them"
    assert "measured on devices like h100" in words(cluster.hosts[0], mine)
    assert "measured on h100" in words(cluster.hosts[0])


def test_a_kernel_is_carried_by_the_constants_that_are_given() -> None:
    here = float(forecast([PRODUCT], sheet_of(device("h100"))).dur_ns[0])
    recorded, change = product(round(1.2 * here)), ("device(name='a100-80')",)
    plain = predict(recorded, change)
    mine = predict(recorded, change, question=Question(constants=slower(2).over(shipped())))
    assert mine.step_ns != plain.step_ns
    assert any("constants of my cluster, of linear" in reason for reason in mine.rests_on)
    assert not any("constants of" in reason for reason in plain.rests_on)
    assert all("constants" not in reason for reason in mine.rests_on if "change:" in reason)


def test_kinds_that_a_file_lacks_are_the_shipped_ones() -> None:
    made = slower(2).over(shipped())
    assert made.learned[KEY] is not shipped().learned[KEY]
    assert (
        made.learned["attention.bfloat16.nvidia"] is shipped().learned["attention.bfloat16.nvidia"]
    )
    assert made.source.startswith("my cluster, of linear.bfloat16.nvidia; else ")


@pytest.mark.parametrize("text", [b"none", b"", b"PK\x03\x04 broken"])
def test_a_file_without_constants_is_refused_by_name(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "c.npz").write_bytes(text)
    with pytest.raises(CostError, match=r"c.npz holds no constants .*paceline fit TABLES"):
        load(tmp_path / "c.npz")


def test_constants_lie_in_the_file_that_was_named(tmp_path: Path) -> None:
    save(Constants({"pointwise.float32.nvidia": Learned({"launch_s": 1e-6})}), tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert load(tmp_path / "mine").learned["pointwise.float32.nvidia"].values == {"launch_s": 1e-6}


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    """A recorded product, an unpriced one, a cluster, and constants of half the rates."""
    save_graph(product(), tmp_path / "unpriced")
    here = float(forecast([PRODUCT], sheet_of(device("h100"))).dur_ns[0])
    save_graph(product(round(here)), tmp_path / "run")
    (tmp_path / "c.yaml").write_text(ON_H100)
    save(slower(2), tmp_path / "mine.npz")
    names = ("unpriced", "run", "c.yaml", "mine.npz")
    return {name: str(tmp_path / name) for name in names}


def test_predict_takes_constants_from_their_file(
    given: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["predict", given["unpriced"], "--cluster", given["c.yaml"], "--json"]
    found = []
    for more in ([], ["--constants", given["mine.npz"]]):
        assert main([*asked, *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[1]["step_ns"] > 1.5 * found[0]["step_ns"]
    assert any("my cluster" in reason for reason in found[1]["rests_on"])


def test_constants_that_would_price_nothing_are_refused(
    given: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", given["run"], "--constants", given["mine.npz"]]) == 1
    assert "give --cluster FILE or --device NAME too" in capsys.readouterr().err


def test_imagining_for_no_device_takes_no_constants(
    given: Mapping[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("")
    asked = ["imagine", "--constants", given["mine.npz"], "--", str(tmp_path / "train.py")]
    assert main(asked) == 1
    assert "give --device or --cluster too" in capsys.readouterr().err


def test_plans_are_priced_by_the_constants_that_are_given() -> None:
    mine, site = slower(2).over(shipped()), site_of(on("{hosts: {count: 1, system: dgx-h100}}"))
    asked = PlanQuestion(decoder("llama3-8b"), site, 8)
    plain, slow = (one.prices() for one in (asked, replace(asked, constants=mine)))
    product = Product("up", 4096, 4096, 4096, DType.BFLOAT16)
    assert slow.kernels.total_ns([product]) > 1.5 * plain.kernels.total_ns([product])
    assert slow.domain.constants is mine


def tables(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "neither devices.json nor devices.yaml"),
        ({"devices.yaml": SHEETS}, "has no table"),
        ({"devices.yaml": "h100: [1", "gemm.csv": GEMM}, "devices.yaml cannot be read"),
        ({"devices.yaml": "", "gemm.csv": GEMM}, "names no device"),
        ({"devices.yaml": "x: 3\n", "gemm.csv": GEMM}, "the sheet of x cannot be read"),
        ({"devices.yaml": SHEETS, "gemm.csv": GEMM}, "have no rows"),
        ({"devices.yaml": SHEETS, "gemm.csv": "device,m\nh100,1\n"}, "line 2 cannot be read.*'n'"),
        ({"devices.yaml": SHEETS, "gemm.csv": GEMM + "l4,bfloat16,1,1,1,1\n"}, "names device 'l4'"),
        ({"devices.yaml": SHEETS, "gemm.csv": GEMM + "h100,bf16,1,1,1,1\n"}, "know, 'bf16'"),
        ({"devices.yaml": SHEETS, "gemm.csv": GEMM + "h100,bfloat16,x,1,1,1\n"}, "line 2 .*'x'"),
        ({"devices.yaml": SHEETS, "gemm.csv": GEMM + "h100,bfloat16,1,1,1,0\n"}, "above zero"),
        ({"devices.yaml": SHEETS, "gemm.csv": GEMM + "h100,bfloat16,1,1\n"}, "line 2 cannot be re"),
        ({"devices.yaml": SHEETS, "moe.csv.gz": "plain"}, "moe.csv.gz, line 1 cannot be read"),
    ],
)
def test_fit_says_what_is_wrong_with_a_folder(
    files: Mapping[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CostError, match=said):
        samples(tables(tmp_path, files))
    assert main(["fit", str(tmp_path), "-o", str(tmp_path / "c.npz")]) == 1
    assert capsys.readouterr().err.startswith("paceline: ")
    assert not (tmp_path / "c.npz").exists()


def test_rows_of_one_device_in_two_folders_are_refused(tmp_path: Path) -> None:
    given = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        row = f"{GEMM}h100,bfloat16,8,16,32,0.5\n"
        given.append(tables(tmp_path / name, {"devices.yaml": SHEETS, "gemm.csv": row}))
    with pytest.raises(CostError, match=r"b has rows of linear.bfloat16.nvidia on h100"):
        samples(*given)


def test_fit_says_each_kind_as_it_goes_and_its_constants_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = Learning(hidden=(4, 4), steps=40, batch=32)
    quick = Effort(known=few, alike=few, rounds=3)
    monkeypatch.setattr("paceline.cost.forecast.efforts.effort_of", lambda key: quick)
    sizes = np.geomspace(64, 8192, 12).astype(int)
    gemm = [
        f"{name},bfloat16,{m},{m},{n},{2 * m * m * n / rate * 1e3 + 0.01}"
        for name, rate in (("h100", 5e14), ("a100-80", 2e14))
        for m, n in zip(sizes, sizes[::-1])
    ]
    soft = [f"h100,softmax,{b},512,0.02" for b in sizes]
    files = {
        "devices.yaml": SHEETS,
        "gemm.csv": GEMM + "\n".join(gemm),
        "vector.csv": "device,op,b,k,ms\n" + "\n".join(soft),
    }
    out = tmp_path / "mine.npz"
    assert main(["fit", str(tables(tmp_path, files)), "-o", str(out), "--source", "ours"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "fitting 2 kinds to 36 rows"
    assert said[1].startswith("softmax.float32.nvidia")
    assert said[1].endswith("no other device to leave out")
    assert said[2].startswith(KEY)
    assert "on devices left out" in said[2]
    assert "--constants" in said[3]
    assert load(out).learned[KEY].devices == ("a100-80", "h100")
