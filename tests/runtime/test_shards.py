"""A language model of three workers under fully_sharded, trained, saved and left as scripts do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live
WORKER = Path(__file__).parent / "shards_worker.py"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("shards")
    command = [sys.executable, "-W", "error", "-m", "torch.distributed.run", "--nproc-per-node=3"]
    done = subprocess.run([*command, str(WORKER), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(3)]


def close(numbers: list[float]) -> Any:
    return pytest.approx(numbers, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("kind", ["Adam", "fused Adam", "SGD"])
def test_the_script_learns_the_same_with_its_clipping_and_its_schedule(
    kind: str, ranks: list[dict[str, Any]]
) -> None:
    for told in ranks:
        plain, cut = told[kind]
        for what in ("losses", "under", "after"):
            assert cut[what] == close(plain[what])


def test_gradients_of_a_layer_too_long_for_one_message_are_the_same(
    ranks: list[dict[str, Any]],
) -> None:
    for told in ranks:
        plain, cut = told["long layer"]
        assert cut == pytest.approx(plain, rel=1e-4)


def test_one_rank_alone_evaluates_the_model_and_saves_all_of_it(
    ranks: list[dict[str, Any]],
) -> None:
    found = ranks[0]["checkpoints"]
    assert len(found["looks"]) == 2
    for ours, theirs in found["looks"]:
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
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


def test_no_trace_of_fsdp2_stays_on_the_model(ranks: list[dict[str, Any]]) -> None:
    assert all(told["clean"] for told in ranks)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("one worker", "nobody to share its weights with"),
        ("no blocks", "numbers no blocks"),
        ("a list", "0 is a list of modules"),
        ("shared", "shared by 1 and a layer elsewhere"),
        ("hooks", "hooks of their own"),
        ("unused", "find_unused_parameters"),
        ("no DDP", "it has 0 DistributedDataParallel modules"),
        ("ZeRO", "has shared out the tensors already"),
        ("L-BFGS", "LBFGS may read all gradients at once"),
        ("fused SGD", "no fused SGD for weights that are cut"),
        ("join", "lets some end early"),
    ],
)
def test_what_fsdp2_cannot_train_as_ddp_does_is_refused_with_the_reason(
    job: str, said: str, ranks: list[dict[str, Any]]
) -> None:
    assert all(said in told["refused"][job] for told in ranks)


def test_weights_are_not_asked_for_before_the_step_that_others_have_made(
    ranks: list[dict[str, Any]],
) -> None:
    assert "had changed its weights 2 times" in ranks[0]["refused"]["early"]


def test_whoever_saves_is_told_that_a_worker_has_ended(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    worker = WORKER.with_name("ended_worker.py")
    subprocess.run([*command, str(worker), str(tmp_path)], capture_output=True, check=False)
    assert "let the script end with torch.distributed.destroy" in (tmp_path / "said").read_text()
