"""Imagined operators tell their dimensions, so that GPUs which nobody has can be asked for them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paceline.cli import main
from paceline.cluster.files import from_document
from paceline.cost import SPREAD, price
from paceline.graph import NONE, UNPRICED, Basis, DType, Graph, OpKind, Phase
from paceline.graph.variants import Variant
from paceline.graph.work import Family
from paceline.imagine.imagine import ScriptJob, imagine
from paceline.imagine.imagined import ImaginedOp
from paceline.replay import replay
from paceline.trace.runs import open_run

pytestmark = pytest.mark.needs("torch")

SERVES = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10))
with torch.no_grad():
    for _ in range(5):
        model(torch.randn(8, 64)).softmax(-1)
"""
ENCODES = """
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
encoder = nn.TransformerEncoder(layer, 2).eval()
torch.backends.mha.set_fastpath_enabled(True)
with torch.no_grad():
    for _ in range(3):
        encoder(torch.randn(2, 16, 64))
"""
TRAINS = """
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
optimizer = torch.optim.AdamW(layer.parameters())
for _ in range(5):
    layer(torch.randn(2, 16, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def imagined(text: str, folder: Path, *, forward: bool = False) -> Graph:
    script = folder / "script.py"
    script.write_text(text)
    return imagine(ScriptJob((str(script),), world_size=1, forward=forward))


def known(graph: Graph) -> np.ndarray:
    return graph.ops.work != NONE


def test_operators_of_a_training_know_what_they_work_on(tmp_path: Path) -> None:
    graph = imagined(TRAINS, tmp_path)
    assert known(graph).mean() > 0.9
    assert not any(graph[op].name.startswith("empty") for op in range(len(graph)))
    products = [op for op in range(len(graph)) if graph[op].name in ("addmm", "mm", "bmm")]
    assert products
    for op in products:
        recorded = graph[op].work
        assert recorded is not None
        assert recorded.work.family is Family.MATRIX
        assert recorded.work.flops == graph.ops.flops[op]


def test_a_script_that_serves_is_imagined_call_by_call(tmp_path: Path) -> None:
    graph = imagined(SERVES, tmp_path, forward=True)
    assert set(graph.ops.phase.tolist()) <= {Phase.FORWARD, Phase.DATA, Phase.NONE}
    assert graph.ops.flops.sum() == 2 * 8 * (64 * 256 + 256 * 10)
    names = [graph[op].name for op in range(len(graph))]
    assert names.count("addmm") == 2
    assert (graph.ops.kind == OpKind.COMPUTE).all()


def test_an_encoder_that_only_infers_tells_the_work_inside_its_layers(tmp_path: Path) -> None:
    graph = imagined(ENCODES, tmp_path, forward=True)
    batch, length, width, ffn = 2, 16, 64, 128
    products = batch * length * (4 * width * width + 2 * width * ffn)
    attention = 2 * batch * length * length * width
    assert graph.ops.flops.sum() == 2 * 2 * (products + attention)
    assert {graph[op].name for op in np.flatnonzero(~known(graph)).tolist()} == {"randn"}
    (note,) = graph.meta["notes"]
    assert "no rule knows" in note
    assert "randn (1 of 27 ops" in note


def test_torchs_fast_path_comes_back_after_a_session() -> None:
    import torch

    from paceline.imagine.torch_session import ImagineSettings, Session

    before = torch.backends.mha.get_fastpath_enabled()
    with Session(ImagineSettings()):
        assert not torch.backends.mha.get_fastpath_enabled()
    assert torch.backends.mha.get_fastpath_enabled() is before


@pytest.fixture(scope="module")
def on_h100(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imagined with nothing said but the device."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "train.py").write_text(TRAINS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["imagine", "--device", "h100", "--", "train.py"]) == 0
    return folder / "runs" / "imagine"


def test_a_device_alone_prices_a_script_of_one_worker(on_h100: Path) -> None:
    graph = open_run(on_h100)
    assert graph.world_size == 1
    device = graph.ops.kind != OpKind.HOST
    assert (graph.ops.basis[device] == Basis.FORECAST).mean() > 0.9
    assert 0.3 < device.mean() < 0.7, "each operator has its call"
    assert (graph.ops.dur_ns >= 0).all()


def test_an_imagined_run_is_held_against_its_own_device(
    on_h100: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(on_h100), "--efficiency"]) == 0
    told = capsys.readouterr().out
    assert "device: h100" in told
    assert "record_shapes" not in told


def test_an_imagined_run_is_carried_to_another_device_as_if_imagined_for_it(
    on_h100: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(on_h100), "--device", "mi300x", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    graph = open_run(on_h100)
    bare = np.full(len(graph), UNPRICED, np.int64)
    unpriced = replace(graph, ops=replace(graph.ops, dur_ns=bare))
    there = from_document({"hosts": {"device": "mi300x"}, "link": "ethernet-1g"})
    step_ns = int(replay(price(unpriced, there)).end_ns.max())
    assert found["step_ns"] == pytest.approx(step_ns, rel=0.25)
    spread = SPREAD[Basis.DATASHEET]  # a small model's step is its host's
    assert found["high_ns"] / found["step_ns"] == pytest.approx(1 + spread, rel=0.02)


def updates(*, gpu: bool, **said: bool) -> list[ImaginedOp]:
    """What AdamW does in a step of a layer with twelve tensors."""
    import torch
    from torch import nn

    from paceline.imagine.torch_imagine import imagined
    from paceline.imagine.torch_session import ImagineSettings

    def train() -> None:
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        optimizer = torch.optim.AdamW(layer.parameters(), **said)
        for _ in range(3):
            layer(torch.randn(2, 16, 64)).sum().backward()
            nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
            optimizer.step()

    rows = imagined(train, ImagineSettings(gpu=gpu)).rows
    return [row for row in rows if row.phase == Phase.UPDATE]


def lists(rows: list[ImaginedOp]) -> set[str]:
    return {row.name for row in rows if row.name.startswith("_foreach")}


@pytest.mark.parametrize("said", [{}, {"foreach": True}])
def test_on_a_gpu_an_optimizer_takes_all_its_tensors_at_once(said: dict[str, bool]) -> None:
    rows = updates(gpu=True, **said)
    assert {"_foreach_lerp_", "_foreach_addcdiv_", "_foreach_norm"} <= lists(rows)
    assert len(rows) < 30


def test_on_a_gpu_a_script_may_say_that_tensors_go_one_by_one() -> None:
    rows = updates(gpu=True, foreach=False)
    assert "_foreach_addcdiv_" not in lists(rows)
    assert sum(row.name == "addcdiv_" for row in rows) == 12


def test_without_a_gpu_tensors_go_one_by_one_and_the_next_session_is_as_before() -> None:
    assert not lists(updates(gpu=False))


def test_a_device_alone_cannot_say_how_workers_are_linked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(TRAINS)
    asked = ["imagine", "-o", str(tmp_path / "run"), "--world-size", "8", "--device", "h100"]
    assert main([*asked, "--", str(script)]) != 0
    assert "--cluster" in capsys.readouterr().err


def convolved(text: str, folder: Path, *, gpu: bool) -> set[DType]:
    """In which types the convolution of a script computes."""
    script = folder / "script.py"
    script.write_text(text + CONVOLVES)
    graph = imagine(ScriptJob((str(script),), world_size=1, gpu=gpu))
    works = [each.work for each in graph.works]
    return {work.dtype for work in works if work.family is Family.CONVOLUTION}


CONVOLVES = """
import torch
from torch import nn

model = nn.Conv2d(3, 8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    optimizer.step()
"""
EXACTLY = "import torch\ntorch.backends.cudnn.allow_tf32 = False\n"


def test_convolutions_on_a_gpu_round_to_tf32_unless_the_script_forbids_it(tmp_path: Path) -> None:
    assert convolved("", tmp_path, gpu=True) == {DType.TFLOAT32}
    assert convolved(EXACTLY, tmp_path, gpu=True) == {DType.FLOAT32}
    assert convolved("", tmp_path, gpu=False) == {DType.FLOAT32}


NORMS = """
import sys
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64))
images = torch.randn(64, 3, 114, 114)
if "last" in sys.argv:
    model, images = (each.to(memory_format=torch.channels_last) for each in (model, images))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    model(images).sum().backward()
    optimizer.step()
"""


def test_batch_norms_of_a_script_whose_channels_lie_last_take_their_passes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(NORMS)
    cluster = from_document({"hosts": {"device": "h200"}, "link": "ethernet-1g"})
    took = {}
    for said in ("first", "last"):
        graph = imagine(ScriptJob((str(script), said), world_size=1, gpu=True))
        norms = [each.work.family is Family.BATCH_NORM for each in graph.works]
        mine = np.array([*norms, False])[graph.ops.work]
        assert mine.any()
        took[said] = int(price(graph, cluster).ops.dur_ns[mine].sum())
        assert graph.facts.variants == ((Variant.CHANNELS_LAST,) if said == "last" else ())
    assert took["last"] < took["first"] / 2, "64 channels leave half of the device idle"
