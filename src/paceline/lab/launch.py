"""Running a job's processes in the lab to their end.

A job ends well when every process ends with 0. When one fails, or time runs out, all are ended and
the log of the guilty one is shown.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from paceline.lab.access import Access
from paceline.lab.errors import WorkerError
from paceline.lab.layout import Layout
from paceline.launch import Late, Process, start, watch

LOG_TAIL_LINES = 25


@dataclass(frozen=True)
class WorkerCommand:
    """What to run on every worker (torchrun: on every host), and how long it may take."""

    command: tuple[str, ...]
    timeout_s: float = 600.0
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = 29400
    enough: Callable[[], bool] = lambda: False  # asked a few times a second; true: it may end now


@dataclass(frozen=True)
class WorkerStart:
    """One process to start: a worker, or with torchrun one host's agent."""

    title: str
    node: int
    command: tuple[str, ...]
    environment: Mapping[str, str]
    cpus: float  # cores it may use; 0: all


@dataclass(frozen=True)
class Finished:
    """A job that ended well, or has done enough. `logs` are in the order of the workers (or hosts,
    with torchrun)."""

    seconds: float
    logs: tuple[Path, ...]

    def text(self, worker: int = 0) -> str:
        return self.logs[worker].read_text(errors="replace")

    def answer(self, worker: int = 0) -> str:
        """The last line: gloo says on the same stream whom it is connected to."""
        return self.text(worker).rstrip().rpartition("\n")[2]


def starts(layout: Layout, asked: WorkerCommand) -> list[WorkerStart]:
    """Who is started where, with what gloo and torch.distributed need to find each other."""
    if torchrun_words(asked.command):
        return [_agent(layout, asked, node) for node in sorted(set(layout.places))]
    return [_worker(layout, asked, rank) for rank in range(layout.workers)]


def torchrun_words(command: Sequence[str]) -> int:
    """How many words start torchrun, by its name or as a module; 0 for any other command."""
    if Path(command[0]).name == "torchrun":
        return 1
    return 3 if tuple(command[1:3]) == ("-m", "torch.distributed.run") else 0


def environment(layout: Layout, asked: WorkerCommand) -> dict[str, str]:
    """What every process of a job needs; the job's own settings win."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {
        **threads,
        "MASTER_ADDR": layout.address(layout.places[0]),
        "MASTER_PORT": str(asked.port),
        "GLOO_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        # Without it a restart under torchrun fails half the time: the new workers find the old
        # store still listening.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "PYTHONUNBUFFERED": "1",
        "PACELINE_LAB": layout.name,
        **asked.environment,
    }


def run_job(
    access: Access,
    layout: Layout,
    asked: WorkerCommand,
    logs: Path,
    groups: Mapping[int, Path],
    told: Callable[[str], None] | None = None,
) -> Finished:
    """Start every process and wait. `groups` are the control groups of those that have a quota;
    `told` is given what the first one writes, as it comes."""
    began = time.monotonic()
    placed = [
        _Placed(start, _process(access, layout, start, logs, groups.get(number)))
        for number, start in enumerate(starts(layout, asked))
    ]
    _run_all(placed, asked, told)
    return Finished(time.monotonic() - began, tuple(one.log for one in placed))


def _worker(layout: Layout, asked: WorkerCommand, rank: int) -> WorkerStart:
    node = layout.places[rank]
    ranks = {
        "RANK": str(rank),
        "WORLD_SIZE": str(layout.workers),
        "LOCAL_RANK": str(rank - layout.places.index(node)),
        "LOCAL_WORLD_SIZE": str(layout.nodes[node].workers),
        "GROUP_RANK": str(sorted(set(layout.places)).index(node)),
    }
    cpus = layout.nodes[node].cpus
    return WorkerStart(
        f"worker {rank}", node, asked.command, {**environment(layout, asked), **ranks}, cpus
    )


def _agent(layout: Layout, asked: WorkerCommand, node: int) -> WorkerStart:
    hosts = sorted(set(layout.places))
    host = layout.nodes[node]
    given = environment(layout, asked)
    options = {
        "--nnodes": len(hosts),
        "--node-rank": hosts.index(node),
        "--nproc-per-node": host.workers,
        "--master-addr": given["MASTER_ADDR"],
        "--master-port": asked.port,
    }
    flat = [str(part) for pair in options.items() for part in pair]
    words = torchrun_words(asked.command)
    command = (*asked.command[:words], *flat, *asked.command[words:])
    return WorkerStart(f"host {host.name}", node, command, given, host.cpus * host.workers)


@dataclass(frozen=True)
class _Placed:
    """What was to be started, and its process."""

    start: WorkerStart
    process: Process

    @property
    def log(self) -> Path:
        assert self.process.log is not None
        return self.process.log


def _process(
    access: Access, layout: Layout, start: WorkerStart, logs: Path, group: Path | None
) -> Process:
    command = access.command(start.command, layout.namespace(start.node))
    if group is not None:
        join = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        command = ["sh", "-c", join, "sh", *command]
    log = logs / f"{start.title.replace(' ', '-')}.log"
    return Process(tuple(command), {**os.environ, **start.environment}, log=log)


def _run_all(
    placed: Sequence[_Placed], asked: WorkerCommand, told: Callable[[str], None] | None
) -> None:
    """Until all have ended; raises for the first that fails, or for all when time is up."""
    with ExitStack() as stack:
        started = [stack.enter_context(start(one.process)) for one in placed]
        first = stack.enter_context(placed[0].log.open(errors="replace"))

        def tell() -> bool:
            if told is not None and (text := first.read()):
                told(text)
            return asked.enough()

        try:
            for number, code in watch(started, asked.timeout_s, tell):
                _require_good_end(placed[number], code)
        except Late as late:
            slow = [placed[number] for number in late.left]
            raise WorkerError(_timeout_message(slow, asked.timeout_s)) from late


def _require_good_end(one: _Placed, code: int) -> None:
    if code:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        raise WorkerError(f"{one.start.title} {how}. {tail(one.log)}")


def _timeout_message(slow: Sequence[_Placed], timeout_s: float) -> str:
    who = ", ".join(one.start.title for one in slow)
    return (
        f"{who} did not end within {timeout_s:g} s; all were ended. Give more time with "
        f"--timeout, or look at what it waits for. {tail(slow[0].log)}"
    )


def tail(log: Path) -> str:
    """The last lines of a log, for a message."""
    lines = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
    if not lines:
        return f"Its log is empty ({log})."
    return "\n".join([f"The end of its log ({log}):", *(f"  | {line}" for line in lines)])
