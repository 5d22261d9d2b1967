"""A live model compiled as a whole, wherever torch by itself would take its blocks apart."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import paceline  # noqa: E402
from paceline.runtime.torch_compiling import CompileError, compiled  # noqa: E402

pytestmark = pytest.mark.needs("torch", "g++")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, given: Tensor) -> Tensor:
        return given + torch.relu(self.layer(given))


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), Block(), Block(), nn.Linear(8, 2))


@pytest.fixture
def alone() -> Iterator[None]:
    """One worker, for a model under DDP."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many products each graph holds that is handed to a compiler; none of which compiles."""
    found: list[int] = []

    def backend(graph: Any, _: Any) -> Any:
        found.append(sum("linear" in str(node.target) for node in graph.graph.nodes))
        return graph.forward

    whole = torch.compile
    monkeypatch.setattr(torch, "compile", partial(whole, backend=backend))
    torch._dynamo.reset()
    yield found
    torch._dynamo.reset()


def test_a_sequence_of_blocks_is_one_graph(graphs: list[int]) -> None:
    job, given = model(), torch.ones(4, 8)
    plain = job(given)
    with compiled(job):
        assert torch.equal(job(given), plain)
    assert graphs == [4]
    assert torch.equal(job(given), plain), "and as it was again"
    assert graphs == [4]
    assert job._compiled_call_impl is None


def test_under_ddp_what_it_holds_is_one_graph(graphs: list[int], alone: None) -> None:
    job = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(job.parameters(), lr=0.1)
    names = list(job.state_dict())
    with paceline.applied(["compiled"], job, optimizer, forced=True):
        job(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        assert list(job.state_dict()) == names
    assert graphs == [4]


@pytest.mark.parametrize(("cap_mb", "parts"), [(None, [1, 2]), (25, [3])])
def test_the_graph_is_cut_where_gradients_can_travel_beside_the_rest(
    graphs: list[int], alone: None, cap_mb: int | None, parts: list[int]
) -> None:
    """Three layers of 1 MiB: torch's first bucket holds one of them."""
    layers = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(3)))
    job = DistributedDataParallel(layers, bucket_cap_mb=cap_mb)
    with compiled(job, (job,)):
        job(torch.ones(1, 512)).sum().backward()
    assert sorted(graphs) == parts


@pytest.mark.parametrize("size_bytes", [1 << 20, 1 << 16])
def test_buckets_of_the_same_plan_count_also_below_torchs_first(
    graphs: list[int], alone: None, size_bytes: int
) -> None:
    layers = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(3)))
    job = DistributedDataParallel(layers, bucket_cap_mb=25)
    optimizer = torch.optim.SGD(job.parameters(), lr=0.1)
    first = dist._DEFAULT_FIRST_BUCKET_BYTES
    plan = [f"buckets(size_bytes={size_bytes})", "compiled"]
    with paceline.applied(plan, job, optimizer, forced=True):
        job(torch.ones(1, 512)).sum().backward()
    assert graphs == [1, 1, 1]
    assert first == dist._DEFAULT_FIRST_BUCKET_BYTES


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # dynamo's own
def test_parts_beside_a_replica_are_compiled_too(graphs: list[int], alone: None) -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.replica = nn.Linear(8, 8), DistributedDataParallel(model())

        def forward(self, given: Tensor) -> Tensor:
            made: Tensor = self.replica(torch.relu(self.before(given)))
            return made

    job = Parts()
    with compiled(job, (job.replica,)):
        job(torch.ones(4, 8))
    assert sorted(graphs) == [1, 4]


def test_blocks_that_fsdp2_parts_are_compiled_for_their_own_sizes(
    graphs: list[int], alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they are parted behind `compiled`."""
    job = nn.Sequential(Block(), nn.Linear(8, 4), nn.Linear(4, 2))
    asked, counting = [], torch.compile

    def seen(call: Any, **how: Any) -> Any:
        asked.append(how["dynamic"])
        return counting(call, **how)

    monkeypatch.setattr(torch, "compile", seen)
    with compiled(job):
        for layer in (*job, job):
            fully_shard(layer)
        for _ in range(2):
            job(torch.ones(4, 8)).sum().backward()
    assert asked == [False]
    assert graphs


def test_a_model_that_is_compiled_already_is_refused_and_stays_so(alone: None) -> None:
    job = DistributedDataParallel(model())
    job.module.compile()
    before = job.module._compiled_call_impl
    with pytest.raises(CompileError, match="compiled already"), compiled(job, (job,)):
        pass
    assert job.module._compiled_call_impl is before
