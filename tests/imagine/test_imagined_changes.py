"""Changes of an imagined DDP job: its gradients, buckets and codecs are those of a recorded one."""

import sys
from pathlib import Path

import numpy as np
import pytest

from paceline.cluster import parse
from paceline.graph import Axis, Collective, DepKind, DType, Graph, OpKind, check
from paceline.graph.gradients import gradients_of, reducing
from paceline.graph.links import Links
from paceline.imagine.imagine import ScriptJob, imagine
from paceline.imagine.transformer import Degrees, Schedule, Training, Transformer, describe
from paceline.predict import predict
from paceline.strategies import parse as strategy
from paceline.strategies import transformed

CLUSTER = parse("{hosts: 2, link: {rate: 1Gbps}}")
TRAIN = str(Path(__file__).parents[2] / "examples" / "train.py")
MIB = 1024 * 1024


def imagined(bucket_mb: int) -> Graph:
    pytest.importorskip("torch", reason="scripts are imagined with torch")
    command = (sys.executable, TRAIN, "--model", "transformer", "--bucket-mb", str(bucket_mb))
    return imagine(ScriptJob(command, world_size=2))


@pytest.fixture(scope="module")
def ddp() -> Graph:
    return imagined(25)


def sent_bytes(graph: Graph) -> list[int]:
    return graph.ops.size_bytes[graph.ops.kind == OpKind.COLLECTIVE].tolist()


def test_every_gradient_is_told_of_with_the_op_that_readies_it(ddp: Graph) -> None:
    names = [parameter.name for parameter in ddp.facts.parameters]
    assert sorted(name for bucket in ddp.facts.buckets for name in bucket) == sorted(names)
    assert sorted(gradients_of(ddp).parameter.tolist()) == list(range(len(names)))
    assert [group.axis for group in ddp.groups] == [Axis.DATA]
    assert sum(ddp.facts.gradient_bytes().values()) == sum(sent_bytes(ddp))


def test_other_buckets_are_those_that_the_script_makes_when_it_is_asked_for_them(
    ddp: Graph,
) -> None:
    changed = check(transformed(ddp, [strategy(f"buckets(size_bytes={MIB})")]))
    asked = imagined(1)
    assert sent_bytes(changed) == sent_bytes(asked)
    predicted = predict(ddp, [f"buckets(size_bytes={MIB})"], CLUSTER).step_ns
    assert predicted == pytest.approx(predict(asked, (), CLUSTER).step_ns, rel=0.02)


def test_codecs_send_fewer_bytes_of_an_imagined_job_and_shorten_its_step(ddp: Graph) -> None:
    plain = predict(ddp, (), CLUSTER)
    halved = predict(ddp, ["bf16"], CLUSTER)
    tenth = predict(ddp, [f"buckets(size_bytes={MIB})", "topk(ratio=0.01)"], CLUSTER)
    ratio = halved.by_class["communication"] / plain.by_class["communication"]
    assert 0.45 < ratio < 0.6
    assert tenth.by_class["communication"] < halved.by_class["communication"]
    assert halved.step_ns < plain.step_ns


MODEL = Transformer(layers=4, hidden=256, heads=8, seq=128, vocab=4096, dtype=DType.FLOAT32)


def described(overlap: bool, pipeline: int = 1, schedule: Schedule = Schedule.ONE_F_ONE_B) -> Graph:
    chunks = 2 if schedule is Schedule.INTERLEAVED else 1
    training = Training(32, 2, schedule, chunks, overlap_gradients=overlap)
    return describe(MODEL, Degrees(data=2, pipeline=pipeline), training).graph


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("schedule", Schedule)
def test_a_described_job_tells_of_every_gradient_that_it_reduces(
    schedule: Schedule, overlap: bool
) -> None:
    graph = check(described(overlap, 2, schedule))
    links, names = Links.of(graph), [parameter.name for parameter in graph.facts.parameters]
    assert sorted(names) == ["embedding", *(f"layer {i}" for i in range(4)), "output"]
    assert sorted(gradients_of(graph).parameter.tolist()) == list(range(len(names)))
    reduces = reducing(graph, links)
    assert graph.ops.size_bytes[reduces].sum() == sum(graph.facts.gradient_bytes().values())
    fed = links.src[(links.kind == DepKind.GRADIENT) & np.isin(links.op, reduces)]
    assert set(np.flatnonzero(graph.ops.tensor >= 0)) <= set(fed.tolist())


def test_a_described_job_without_replicas_tells_of_no_gradient() -> None:
    alone = describe(MODEL, Degrees(), Training(32, 2)).graph
    assert not alone.facts.parameters
    assert (alone.ops.tensor == -1).all()


def test_buckets_of_a_described_job_hide_behind_its_backward_pass() -> None:
    whole = described(overlap=False)
    assert sum(whole.ops.collective == Collective.ALL_REDUCE) == 1
    layer = whole.facts.gradient_bytes()["layer 0"]
    cut = check(transformed(whole, [strategy(f"buckets(size_bytes={layer})")]))
    assert sum(cut.ops.collective == Collective.ALL_REDUCE) == 5
    steps = [predict(graph, (), CLUSTER).step_ns for graph in (whole, cut, described(True))]
    assert steps[1] < steps[0]
    assert steps[1] == pytest.approx(steps[2], rel=0.02)


def test_codecs_of_a_described_job_send_fewer_bytes() -> None:
    graph = described(overlap=True, pipeline=2)
    plain, halved, tenth = (
        predict(graph, plan, CLUSTER).by_class["communication"]
        for plan in ((), ("bf16",), ("topk(ratio=0.01)",))
    )
    assert tenth < halved < plain
