"""What tests of several rooms share: what the machine must have, and a folder in memory.

    @pytest.mark.needs("root", "nft")

skips a test with a plain reason where the machine lacks one of them. The head of a run names all
that is lacking, and what is skipped for it.
"""

import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from paceline.record.launch import Recording

os.environ["PACELINE_HISTORY"] = "off"  # no test writes to the history of who runs it

START = Path(__file__).parent / "start"
THEIRS = os.environ.get("PYTHONPATH")
os.environ["PYTHONPATH"] = f"{START}{os.pathsep}{THEIRS}" if THEIRS else str(START)

gc.disable()  # until all tests are collected

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's command in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # workers would ignore it as well

TRAIN = Path(__file__).parents[1] / "examples" / "train.py"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
DDP_TRAINING = (str(TRAIN), *"--model small --parallel ddp --steps 34 --bucket-mb 0.3".split())


@dataclass(frozen=True)
class Need:
    """Something that not every machine has."""

    present: Callable[[], bool]
    what: str  # what it is, and where it comes from
    tested: str  # what is not tested without it


def program(*names: str) -> bool:
    return all(shutil.which(name) is not None for name in names)


def module(name: str) -> bool:
    return find_spec(name) is not None


def compiler() -> bool:
    return shutil.which(os.environ.get("CXX", "g++")) is not None


def built() -> bool:
    from paceline.engine import native

    return native() is not None


def webassembly() -> bool:
    from paceline.engine import module_file

    return module_file().is_file()


def namespaces() -> bool:
    """Whether this user may make network and mount namespaces here; containers often forbid it."""
    made = ["unshare", "--net", "--mount", "true"]
    return program("unshare") and subprocess.run(made, capture_output=True).returncode == 0


def vision_loads() -> bool:
    """Whether torchvision, which transformers import where it is installed, fits this torch: some
    builds of the package registries do not."""
    tried = [sys.executable, "-c", "import torchvision"]
    return not module("torchvision") or subprocess.run(tried, capture_output=True).returncode == 0


def quotas() -> bool:
    """Whether CPU quotas can be set here: a writable controller of control groups."""
    from paceline.lab import LabError, quota

    try:
        quota.controller()
    except LabError:
        return False
    return True


def programs_in_kernel() -> bool:
    """Whether this user may load BPF programs here."""
    from paceline.wire.errors import WireError
    from paceline.wire.switch.kernel import bpf

    try:
        os.close(bpf.make_map("pl_asked", bytes(8)))
    except WireError:
        return False
    return True


LAB = "the lab: labs that really stand, proofs in them"
NEEDS = {
    "linux": Need(lambda: sys.platform == "linux", "Linux", "supervised processes, the lab"),
    "root": Need(lambda: os.geteuid() == 0, "root", LAB),
    "namespaces": Need(namespaces, "network and mount namespaces (Linux, not forbidden)", LAB),
    "iproute2": Need(partial(program, "ip", "tc"), "ip and tc (iproute2)", LAB),
    "bpf": Need(
        programs_in_kernel, "BPF programs (root; Linux 5.12 or newer)", "the kernel's switch"
    ),
    "nft": Need(partial(program, "nft"), "nft (nftables)", "random loss in the lab"),
    "quotas": Need(quotas, "CPU quotas (control groups)", "slower hosts in the lab"),
    "g++": Need(compiler, "a C++ compiler (g++, or CXX)", "weave's compiled kernels"),
    "native": Need(built, "the native core", "that it equals its Python twins"),
    "webassembly": Need(
        webassembly,
        "the engine as WebAssembly (`make wasm`)",
        "the engine of the page and of the universal wheel",
    ),
    "wasmtime": Need(partial(module, "wasmtime"), "wasmtime", "the universal wheel's engine"),
    "torch": Need(partial(module, "torch"), "torch", "recording, imagining, runtimes"),
    "cosmic-ray": Need(
        lambda: module("cosmic_ray") and module("coverage"),
        "cosmic-ray and coverage",
        "how the mutation benchmark makes its faults",
    ),
    "lightning": Need(partial(module, "lightning"), "lightning", "its callbacks"),
    "transformers": Need(
        lambda: module("transformers") and module("accelerate") and vision_loads(),
        "transformers and accelerate, beside no torchvision or one that loads",
        "the Hugging Face Trainer, recorded and imagined",
    ),
    "gymnasium": Need(partial(module, "gymnasium"), "gymnasium", "reinforcement learning"),
    "snntorch": Need(partial(module, "snntorch"), "snntorch", "spiking networks"),
    "accelerate": Need(partial(module, "accelerate"), "accelerate", "its launcher"),
    "torchtitan": Need(partial(module, "torchtitan"), "torchtitan", "its reading of plans"),
    "pymetis": Need(partial(module, "pymetis"), "pymetis", "graphs parted by METIS"),
    "optuna": Need(partial(module, "optuna"), "optuna", "the black-box searcher"),
    "dask": Need(
        partial(module, "distributed"), "distributed (Dask)", "searches and imports on it"
    ),
    "ray": Need(partial(module, "ray"), "ray", "searches and imports on it"),
    "tensorboard": Need(partial(module, "tensorboard"), "tensorboard", "its tracker"),
    "mlflow": Need(partial(module, "mlflow"), "mlflow or mlflow-skinny", "its tracker"),
    "wandb": Need(partial(module, "wandb"), "wandb", "its tracker"),
    "mcp": Need(partial(module, "mcp"), "mcp", "tools for assistants"),
    "torchvision": Need(partial(module, "torchvision"), "torchvision", "the zoo of networks"),
    "h5py": Need(partial(module, "h5py"), "h5py", "data sets in HDF5"),
    "pillow": Need(partial(module, "PIL"), "pillow", "data sets in JPEG and PNG"),
    "serve": Need(
        lambda: module("starlette") and module("uvicorn"), "starlette and uvicorn", "serving models"
    ),
    "triton": Need(partial(module, "triton"), "triton", "weave's GPU kernels"),
    "node": Need(partial(program, "node"), "Node.js", "scripts of the live page"),
    "chromium": Need(
        lambda: program("chromium") or program("chromium-browser") or program("google-chrome"),
        "Chromium",
        "the live page in a browser",
    ),
}


@cache
def has(name: str) -> bool:
    return NEEDS[name].present()


def pytest_report_header() -> list[str]:
    """Said once, before the first test."""
    lacking = [need for name, need in NEEDS.items() if not has(name)]
    if not lacking:
        return ["this machine has all that the tests need"]
    lines = [f"  {need.what}: {need.tested}" for need in lacking]
    return ["this machine lacks, and tests skip for it:", *lines]


def pytest_collection_finish() -> None:
    """What is imported by now stays: the collector need not look through it while tests run."""
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("needs"):
            _skip_without(item, mark.args)


def _skip_without(item: pytest.Item, names: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in NEEDS]
    if unknown:
        raise pytest.UsageError(
            f"{item.nodeid} needs {unknown}, which tests/conftest.py does not know; "
            f"known are {', '.join(NEEDS)}"
        )
    if lacking := [NEEDS[name].what for name in names if not has(name)]:
        item.add_marker(pytest.mark.skip(reason=f"this machine lacks {', '.join(lacking)}"))


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], AbstractContextManager[Path]]:
    """What several tests ask about is made once, however many processes test: inside the block one
    process alone holds the path of that name, which exists where it was made before."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared

    @contextmanager
    def alone(name: str) -> Iterator[Path]:
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield shared / name

    return alone


@pytest.fixture(scope="session")
def ddp_recording(once: Callable[[str], AbstractContextManager[Path]]) -> "Recording":
    """The example's DDP training of two workers."""
    from paceline.record.job import job_of
    from paceline.record.launch import Recording, RecordRequest, launch, outcomes

    with once("ddp-recording") as folder:
        request = RecordRequest((*TORCHRUN, *DDP_TRAINING), folder, steps=4, plain=2)
        if not folder.exists():
            return launch(request, os.environ)
    code = job_of(request.folder).exit_code
    assert code is not None, "another test process was stopped while it recorded"
    return Recording(request.folder, code, outcomes(request.folder))


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """The folder of real traces; tests that ask for it skip where it is absent."""
    shared = Path(os.environ.get("PACELINE_SHARED", Path(__file__).parents[2] / "shared"))
    folder = shared / "data" / "traces"
    if not folder.is_dir():
        pytest.skip(f"the shared real traces are not there ({folder})")
    return folder


@pytest.fixture
def ram(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where the system has one: property tests sync hundreds of folders."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)
