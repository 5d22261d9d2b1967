"""Pairs of linear layers that two workers share, and two groups of two: plain training's steps."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from paceline.runtime.exchange import Exchange, ExchangeError
from paceline.runtime.run import Run

pytestmark = pytest.mark.live
WORKER = Path(__file__).parent / "pairs_worker.py"
Runs = list[dict[str, Any]]

PAIRS = ((6, 10, 8), (8, 10, 6), (6, 10, 6))
"""Columns, inner size and outputs of the worker's pairs; the first takes the data."""
BIASES = (10, 0, 10)
WEIGHTS = sum(inner * (columns + outputs) for columns, inner, outputs in PAIRS) + sum(BIASES)
REST = (2 * 8) + 6 + (6 + 6) + (6 + 6) + (6 + 1)
"""Numbers that all hold: biases of second layers, norms, and the last layer."""
ROWS = 8


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Runs]:
    """What each of so many workers saw."""
    pytest.importorskip("torch")

    @cache
    def run(count: int) -> Runs:
        folder = tmp_path_factory.mktemp("pairs")
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count)]
        environment = {**os.environ, "PYTHONWARNINGS": "error::UserWarning"}
        done = subprocess.run(
            [*command, str(WORKER), str(folder)], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr[-3000:]
        files = [folder / f"rank-{rank}.json" for rank in range(count)]
        return [json.loads(file.read_text()) for file in files]

    return run


@pytest.fixture
def two(started: Callable[[int], Runs]) -> Runs:
    return started(2)


@pytest.fixture(params=[2, 4])
def ranks(request: pytest.FixtureRequest, started: Callable[[int], Runs]) -> Runs:
    return started(request.param)


def close(numbers: list[float]) -> Any:
    return pytest.approx(numbers, rel=1e-5, abs=1e-6)


def require_same(runs: Runs, kind: str) -> None:
    """Losses and norms of gradients; weights, state and what the model says; gradients."""
    for told in runs:
        plain, cut = told[kind]
        for what in ("seen", "under", "looks", "given back", "after"):
            assert cut[what] == close(plain[what])
        assert cut["own"] < plain["own"]


@pytest.mark.parametrize("kind", ["Adam", "fused Adam", "foreach", "transformer", "buckets"])
def test_the_script_learns_the_same_with_its_clipping_and_its_schedule(
    kind: str, two: Runs
) -> None:
    require_same(two, kind)


@pytest.mark.parametrize("kind", ["SGD", "passes", "each pass", "nothing else"])
def test_parts_are_reduced_among_those_who_hold_them(kind: str, ranks: Runs) -> None:
    require_same(ranks, kind)


def test_a_worker_holds_half_of_each_pair_and_sends_rows_and_parts(ranks: Runs) -> None:
    plain, cut = ranks[0]["SGD"]
    assert plain["own"] - cut["own"] == WEIGHTS / 2
    entries = [2 * (8 + 4 * ROWS * columns) for columns, _, _ in PAIRS]
    back = [2 * 4 * ROWS * columns for columns, _, _ in PAIRS[1:]]
    leaves = [2 * 4 * ROWS * outputs for _, _, outputs in PAIRS]
    rows = sum(entries) + sum(back) + 2 * sum(leaves)
    calls, sent, groups = len(entries) + len(back) + 2 * len(leaves), cut["sent"], len(ranks) // 2
    parts = (2 * len(PAIRS) + 2) if groups > 1 else 0  # both weights, and two biases
    held = 4 * WEIGHTS / 2 if groups > 1 else 0
    assert sent["calls"] == calls + parts + 1
    assert sent["payload_bytes"] == rows + held + 4 * REST
    share = 2 * (len(ranks) - 1) / len(ranks)
    assert sent["wire_bytes"] == rows / 2 + held + share * 4 * REST


def test_buckets_of_the_rest_are_those_of_the_plan(two: Runs) -> None:
    """Of 64 bytes or more, by the order in which gradients are ready."""
    few, many = (two[0][kind][1]["sent"] for kind in ("SGD", "buckets"))
    assert many["calls"] > few["calls"]
    assert many["payload_bytes"] == few["payload_bytes"]


def test_steps_are_counted_where_no_gradient_is_left_for_a_bucket(ranks: Runs) -> None:
    sent = ranks[0]["nothing else"][1]["sent"]
    assert sent["calls"] == 3 + (2 if len(ranks) > 2 else 0)


def test_one_rank_alone_evaluates_the_model_and_saves_all_of_it(ranks: Runs) -> None:
    found = ranks[0]["checkpoints"]
    assert len(found["looks"]) == 2
    for ours, theirs in found["looks"]:
        assert ours == close(theirs)
    assert found["saved"] == close(found["plain"])
    for told in ranks:
        assert told["checkpoints"]["on"] == close(told["checkpoints"]["plain_on"])


def test_a_checkpoint_loads_under_the_plan(ranks: Runs) -> None:
    for told in ranks:
        assert told["checkpoints"]["back"] == told["checkpoints"]["saved"]


def test_an_error_inside_leaves_the_job_as_it_was_before(two: Runs) -> None:
    for told in two:
        assert told["crashed"]["alike"]
        assert told["crashed"]["after"] == close(told["crashed"]["plain"])


def test_no_trace_of_pairs_stays_on_the_model(ranks: Runs) -> None:
    assert all(told["clean"] for told in ranks)


def test_batches_that_change_for_all_train_on_and_unequal_ones_are_refused_by_all(
    ranks: Runs,
) -> None:
    for told in ranks:
        ours, theirs = told["batches"]["alike"]
        assert ours == close(theirs)
        assert "batches of unlike size in this step" in told["batches"]["said"]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("one worker", "nobody to share its weights with"),
        ("no pairs", "2 plain linear layers no two are known to follow one another"),
        ("odd", "with an inner size that 2 divides"),
        ("degree", "workers cannot be put together by 3"),
        ("hooks", "hooks of their own"),
        ("unused", "find_unused_parameters"),
        ("L-BFGS", "LBFGS may read all gradients at once"),
        ("fused SGD", "no fused SGD for weights that are cut"),
        ("compiled", "compilers do not see the workers' exchange"),
        ("eval", "a pass in eval() asks for the weights of a pair, and trains none"),
        ("join", "lets some end early"),
    ],
)
def test_what_workers_cannot_share_is_refused_with_the_reason(
    job: str, said: str, two: Runs
) -> None:
    assert all(said in told["refused"][job] for told in two)


def test_another_exchange_beside_pairs_is_refused() -> None:
    torch = pytest.importorskip("torch")
    from paceline.runtime.torch_exchange import installed

    model = torch.nn.Linear(2, 2)
    run = Run(model, torch.optim.SGD(model.parameters(), lr=0.1))
    refused = pytest.raises(ExchangeError, match="leave tensor_parallel out")
    with run.exchange.with_pairs(2), run.exchange.with_priority(), refused:
        installed(run).__enter__()
    assert run.exchange == Exchange()
