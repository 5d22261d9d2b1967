"""The CPU back end: phases by hand, generated code against the interpreter, peers that are lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.weave import ops
from paceline.weave.cpu import compile as compiling
from paceline.weave.cpu.backend import CpuBackend, chunk_table
from paceline.weave.cpu.emit import LoopSettings
from paceline.weave.cpu.phases import Phases
from paceline.weave.cpu.segment import Segment, SharedMemoryError, plan
from paceline.weave.host import HostSettings
from paceline.weave.language import MatMul, ReduceAll, program, tensor
from paceline.weave.layout import Group, Replicated
from paceline.weave.programs import adam, lamb, self_attention
from paceline.weave.schedules import fully_fused, in_three

pytest.importorskip("torch", reason="the CPU back end hands out torch tensors")
WORKER = Path(__file__).parent / "cpu_worker.py"
TWO = Group.world(2)
HERE = HostSettings.here()
needs_compiler = pytest.mark.skipif(compiling.compiler(HERE) is None, reason="no C++ compiler here")


def run_workers(case: str, ranks: int, folder: Path, **environment: str) -> list[str]:
    """Start the workers; returns what those that failed said, without the one that was killed."""
    settings = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **environment}
    workers = [
        subprocess.Popen(
            [sys.executable, WORKER, case, str(rank), str(ranks), folder],
            stderr=subprocess.PIPE,
            text=True,
            env=settings,
        )
        for rank in range(ranks)
    ]
    said = [worker.communicate(timeout=200)[1] for worker in workers]
    return [text[-3000:] for w, text in zip(workers, said) if w.returncode not in (0, -9)]


def shared_files() -> set[str]:
    return {p.name for p in Path("/dev/shm").glob("paceline-*")}


def test_adam_is_one_phase_and_lamb_is_two() -> None:
    assert Phases.of(fully_fused(adam(64, TWO))).count == 1
    form = Phases.of(fully_fused(lamb((32, 32), TWO)))
    first, second = form.phases
    # The moments are stored in the first pass and read back in the second; w waits for the norms.
    assert {u.args[0] for u in first.updates} == {"m", "v"}
    assert {u.args[0] for u in second.updates} == {"w"}
    assert set(second.reloads.values()) == {"m", "v"}
    assert "g" in first.loads
    assert "g" not in second.loads


def test_chunks_cover_every_element_once_and_span_no_segment() -> None:
    table = chunk_table((5, 16, 1), 8)
    assert table.tolist() == [[0, 5, 0], [5, 8, 1], [13, 8, 1], [21, 1, 2]]


def test_regions_start_on_pages_of_their_own() -> None:
    places, size = plan({"a": 1, "b": 4097, "c": 0, "d": 8})
    assert [p.offset for p in places.values()] == [0, 4096, 12288, 12288]
    assert size == 16384


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("no element-by-element", self_attention(4, 8, TWO)),
        ("only FLOAT32", adam(8, TWO, dtype=ops.DType.FLOAT16)),
    ],
)
def test_what_cannot_be_generated_is_refused_with_its_reason(reason: str, step) -> None:
    assert reason in str(CpuBackend(HERE).refusal(step))


def test_reductions_along_a_dim_are_refused() -> None:
    x = tensor("x", (4, 4), Replicated(), TWO)
    step = program("rows", ReduceAll(x, dim=0))
    assert "along a dim" in str(CpuBackend(HERE).refusal(step))
    assert "matmul" in str(CpuBackend(HERE).refusal(program("product", MatMul(x, x))))


def test_settings_of_other_back_ends_are_left_aside() -> None:
    assert LoopSettings.of({"chunk": 512.0, "blocks": 3}) == LoopSettings(chunk=512)


@pytest.mark.parametrize("step", [adam(64, TWO), lamb((32, 32), TWO)], ids=lambda s: s.name)
def test_the_three_kernel_schedule_keeps_collectives_apart(step) -> None:
    launches = in_three(step).launches()
    kinds = [type(launch.body[0].op) for launch in launches if not launch.is_fused]
    assert ops.ReduceScatter in kinds
    assert ops.AllGather in kinds
    assert sum(launch.is_fused for launch in launches) == 1


@needs_compiler
def test_a_kernel_that_does_not_compile_says_what_the_compiler_said() -> None:
    with pytest.raises(compiling.CompileError, match="nonsense"):
        compiling.load("nonsense;", HERE)


@needs_compiler
def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_one(tmp_path, caplog) -> None:
    (tmp_path / "file").write_text("")
    here = HostSettings(cache=tmp_path / "file")
    assert compiling.load('extern "C" int answer() { return 42; }', here).answer() == 42
    assert "kernel cache" in caplog.text


@needs_compiler
@pytest.mark.live
@pytest.mark.parametrize("case", ["programs", "training"])
def test_two_workers_compute_what_the_interpreter_and_torch_do(case: str, tmp_path) -> None:
    assert run_workers(case, 2, tmp_path) == []
    assert not shared_files()


@needs_compiler
@pytest.mark.live
def test_three_workers_with_uneven_shares_compute_the_same(tmp_path) -> None:
    assert run_workers("programs", 3, tmp_path) == []


@needs_compiler
@pytest.mark.live
@pytest.mark.parametrize("case", ["killed", "left", "late"])
def test_a_lost_peer_ends_the_step_with_an_error_and_leaves_nothing_behind(
    case: str, tmp_path
) -> None:
    assert run_workers(case, 2, tmp_path) == []
    assert not shared_files()


@needs_compiler
@pytest.mark.live
def test_unsupported_options_and_rebound_parameters_are_refused(tmp_path) -> None:
    assert run_workers("refused", 1, tmp_path) == []


@pytest.mark.live
def test_without_a_compiler_the_plain_schedule_runs_and_says_so(tmp_path) -> None:
    assert run_workers("no_compiler", 2, tmp_path, CXX="/nonexistent/g++") == []


@needs_compiler
@pytest.mark.live
@pytest.mark.skipif(os.geteuid() != 0, reason="a small tmpfs needs root")
def test_too_little_shared_memory_falls_back_and_says_how_much_is_missing(tmp_path) -> None:
    small = tmp_path / "shm"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    try:
        assert run_workers("too_small", 2, tmp_path, PACELINE_SHM=str(small)) == []
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_missing_shared_memory_folder_is_an_error_that_names_it() -> None:
    with pytest.raises(SharedMemoryError, match="/nonexistent"):
        Segment(0, lambda value: [value], {"x": 4}, Path("/nonexistent"))


def test_the_environment_says_where_things_are() -> None:
    given = {"PACELINE_SHM": "/a", "CXX": "clang++", "XDG_CACHE_HOME": "/b", "MASTER_ADDR": "c"}
    found = HostSettings.of({**given, "GLOO_SOCKET_IFNAME": "eth0,eth1"})
    assert (found.shared_memory, found.compiler) == (Path("/a"), "clang++")
    assert (found.cache, found.interface) == (Path("/b/paceline"), "eth0")
    assert found.master == ("c", 1)
    assert HostSettings.of({"PACELINE_CACHE": "/d"}).cache == Path("/d")


EXAMPLE = Path(__file__).parents[2] / "examples" / "fused_adam.py"


def test_fused_adam_takes_a_user_under_25_lines() -> None:
    _, _, rest = EXAMPLE.read_text().partition("from here ...\n")
    written, _, _ = rest.partition("# --8<-- ... to here")
    lines = [line for line in written.splitlines() if line.strip()]
    assert 10 < len(lines) < 25


@needs_compiler
@pytest.mark.live
def test_the_example_runs_on_two_workers() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", "2", str(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "kernel fused" in done.stdout
    assert "mean weight after 10 steps: 1.0" in done.stdout
