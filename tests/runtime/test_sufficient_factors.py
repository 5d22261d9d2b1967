"""Weight gradients made of all workers' rows: plain training's steps, on real workers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import paceline  # noqa: E402
from paceline.runtime.exchange import ExchangeError  # noqa: E402
from paceline.runtime.sufficient_factors import payload_bytes  # noqa: E402

WORKER = Path(__file__).parent / "sufficient_worker.py"
SHAPES = {"all": [(16, 12), (16, 16), (4, 16)], "some": [(16, 12), (16, 16)]}
REST = 4 * (4 * 16 + 4)
"""Bytes of the last layer's weight and bias."""
TRAININGS = [
    *(f"{rows} {layers}" for rows in ("even", "uneven", "growing") for layers in ("all", "some")),
    *("buckets", "fused", "views", "static", "clipped", "passes", "positions", "lone rows"),
    *("rounded", "recomputed", "zero", "broken"),
]
Runs = list[dict[str, Any]]


@pytest.fixture(scope="module", params=[2, 3])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """What each of two workers saw, and of three."""
    folder = tmp_path_factory.mktemp("factors")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]
    command += [str(request.param), str(WORKER), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    files = [folder / f"rank-{rank}.json" for rank in range(request.param)]
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.live
@pytest.mark.parametrize("name", TRAININGS)
def test_it_trains_plain_trainings_weights_and_workers_the_very_same(name: str, runs: Runs) -> None:
    near = 1e-2 if name == "rounded" else 1e-6  # plain training rounds gradients to 16 bits
    for run in runs:
        assert run[name]["far"] < near < run[name]["moved"]
        assert run[name]["after"] < near
        assert run[name]["weights"] == runs[0][name]["weights"]
        assert run[name]["left"]


@pytest.mark.live
@pytest.mark.parametrize("layers", ["all", "some"])
def test_each_layers_rows_are_counted_and_buckets_of_the_rest(layers: str, runs: Runs) -> None:
    members = len(runs)
    rest = REST if layers == "some" else 0
    for rows, most in (("even", 5), ("uneven", 3 + 4 * (members - 1))):
        sent = runs[0][f"{rows} {layers}"]["sent"]
        gathered = members * sum(payload_bytes(shape, most, 4) for shape in SHAPES[layers])
        assert sent["steps"] == 6
        assert sent["calls"] == 3
        assert sent["payload_bytes"] == gathered + rest
        each = gathered * (members - 1) / members + rest * 2 * (members - 1) / members
        assert sent["wire_bytes"] == pytest.approx(each, abs=3)


@pytest.mark.live
def test_rows_without_room_travel_by_themselves_once(runs: Runs) -> None:
    """Room is made for the 2 rows of the first batch, then for more in the second and third, and
    where another worker's last batch is the largest."""
    sent = runs[0]["growing all"]["sent"]
    assert sent["calls"] * sent["steps"] == 3 * (5 + 3)


def lone(model: nn.Module, plan: tuple[str, ...] = (), **ddp: Any) -> Any:
    """Under the plan, on a job's only worker."""
    replica = DistributedDataParallel(model, **ddp)
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.1)
    return replica, paceline.applied(["sufficient_factors(rows=1)", *plan], replica, optimizer)


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8))


class Tied(nn.Module):
    """Its script multiplies by a layer's weight itself, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again = nn.Linear(8, 8), True

    def forward(self, inputs: Any) -> Any:
        made = self.first(inputs)
        return made @ self.first.weight if self.again else made


@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize(
    ("model", "plan", "ddp", "said"),
    [
        (nn.Conv1d(2, 2, 1), (), {}, "no plain linear layer"),
        (plain(), (), {"find_unused_parameters": True}, "leave out layers"),
        (plain(), ("buckets(size_bytes=64)",), {}, "no gradient of this job is left for a bucket"),
    ],
)
def test_jobs_that_it_does_not_fit_are_refused_before_they_run(
    model: nn.Module, plan: tuple[str, ...], ddp: dict[str, Any], said: str
) -> None:
    replica, under = lone(model, plan, **ddp)
    with pytest.raises(ExchangeError, match=said):
        under.__enter__()
    assert replica.reducer is not None
    assert not replica.parameters_to_ignore


@pytest.mark.usefixtures("group_of_one")
def test_without_ddp_it_is_refused() -> None:
    model = plain()
    under = paceline.applied(
        ["sufficient_factors(rows=1)"], model, torch.optim.SGD(model.parameters(), lr=0.1)
    )
    with pytest.raises(ExchangeError, match="no DistributedDataParallel"):
        under.__enter__()


@pytest.mark.usefixtures("group_of_one")
def test_a_weight_that_is_used_outside_its_layer_is_refused_before_it_is_updated() -> None:
    model = Tied()
    replica, under = lone(model)
    with under:
        with pytest.raises(ExchangeError, match="another way than the layer's own forward"):
            replica(torch.ones(3, 8)).sum().backward()
        assert model.first.weight.grad is None
        model.again = False
        replica(torch.ones(3, 8)).sum().backward()
        assert model.first.weight.grad is not None


@pytest.mark.usefixtures("group_of_one")
def test_gradients_of_gradients_are_refused() -> None:
    replica, under = lone(plain())
    with under:
        inputs = torch.ones(3, 6, requires_grad=True)
        (first,) = torch.autograd.grad(replica(inputs).square().sum(), inputs, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            first.square().sum().backward()


@pytest.mark.usefixtures("group_of_one")
def test_a_pass_that_asks_for_no_gradient_of_weights_gathers_none() -> None:
    replica, under = lone(plain())
    with under as sent:
        inputs = torch.ones(3, 6, requires_grad=True)
        torch.autograd.grad(replica(inputs).sum(), inputs)
        assert sent.calls == 0
        replica(inputs).sum().backward()
        assert sent.calls == 2


@pytest.mark.usefixtures("group_of_one")
def test_workers_that_end_early_are_refused() -> None:
    replica, under = lone(plain())
    with under, pytest.raises(ExchangeError, match="lets some end early"):
        replica.join()
