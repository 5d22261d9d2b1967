"""A language model of four workers as pipelines, trained, saved and left as scripts do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live
WORKER = Path(__file__).parent / "piped_worker.py"
RANKS = 4


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("piped")
    run = [sys.executable, "-W", "error", "-m", "torch.distributed.run"]
    command = [*run, f"--nproc-per-node={RANKS}", str(WORKER), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(RANKS)]


def close(numbers: list[float]) -> Any:
    return pytest.approx(numbers, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    "plan", ["gpipe of 2", "1f1b of 2", "1f1b of 4", "zero-bubble", "interleaved"]
)
def test_the_script_learns_the_same_with_its_clipping_and_its_sums_of_gradients(
    plan: str, ranks: list[dict[str, Any]]
) -> None:
    for told in ranks:
        assert told[plan].keys() == told["plain"].keys()
        for what, numbers in told["plain"].items():
            assert told[plan][what] == close(numbers), what


def test_2bw_takes_gradients_of_weights_one_update_old(ranks: list[dict[str, Any]]) -> None:
    for told in ranks:
        rule, run = told["2bw"]["rule"], told["2bw"]["run"]
        assert run["losses"] == close(rule["losses"])
        assert run["after"] == close(rule["after"])


def test_one_rank_alone_looks_at_two_versions_of_weights(ranks: list[dict[str, Any]]) -> None:
    assert [told["2bw"]["run"]["looks"] for told in ranks] == [44, 0, 0, 0]


def test_one_rank_alone_evaluates_the_model_and_saves_all_of_it(
    ranks: list[dict[str, Any]],
) -> None:
    found = ranks[0]["checkpoints"]
    assert len(found["looks"]) == 2
    for ours, theirs in found["looks"]:
        assert ours == close(theirs)
    assert found["saved"] == close(found["plain"])
    for told in ranks:
        assert told["checkpoints"]["on"] == close(told["checkpoints"]["plain_on"])


def test_a_checkpoint_loads_under_the_plan(ranks: list[dict[str, Any]]) -> None:
    for told in ranks:
        assert told["checkpoints"]["back"] == told["checkpoints"]["saved"]


def test_an_error_inside_leaves_the_job_as_it_was_before(ranks: list[dict[str, Any]]) -> None:
    for told in ranks:
        assert told["crashed"]["alike"]
        assert told["crashed"]["after"] == close(told["crashed"]["plain"])


def test_each_worker_holds_its_stage_alone(ranks: list[dict[str, Any]]) -> None:
    found = [told["held alone"] for told in ranks]
    assert sum(each["mine"] for each in found) == found[0]["whole"]
    assert sum(each["states"] for each in found) == found[0]["count"]
    assert max(each["mine"] for each in found) < 0.5 * found[0]["whole"]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("tied", "share a weight"),
        ("unseen", "does something that torch.fx does not see"),
        ("untrained", "does something that torch.fx does not see"),
        ("branching", "torch.fx cannot follow its forward pass"),
        ("one part", "passes between 1 parts of its model"),
        ("few samples", "a batch has 1 samples"),
        ("stages", "4 workers cannot be put together by 3"),
        ("begins", "out of 0, 1; asked for were 7"),
        ("unused", "find_unused_parameters"),
        ("L-BFGS", "LBFGS may read all gradients at once"),
        ("eval", "trains in eval()"),
    ],
)
def test_what_a_pipeline_cannot_train_as_ddp_does_is_refused_with_the_reason(
    job: str, said: str, ranks: list[dict[str, Any]]
) -> None:
    assert all(said in told["refused"][job] for told in ranks)


def test_gpipe_lets_the_script_call_its_model_twice_before_it_goes_back(
    ranks: list[dict[str, Any]],
) -> None:
    for told in ranks:
        plain, cut = told["gathered"]
        assert cut == close(plain)
