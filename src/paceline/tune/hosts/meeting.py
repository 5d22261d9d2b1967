"""`meeting_of`: on how many hosts a command runs, which of them this is, and where they meet.

Read from the launcher's own options (torchrun, accelerate, deepspeed), else from what srun sets.
What hosts know of each other and strangers do not is in the environment.
"""

import errno
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from paceline.tune.errors import TuneError
from paceline.tune.hosts.proof import SECRET, key_of

BESIDE = 1
"""Hosts meet on the port next to the job's rendezvous."""
PORT = 29500

_COUNT = ("--nnodes", "--num-machines", "--num-nodes")
_NUMBER = ("--node-rank", "--machine-rank")
_ADDRESS = ("--master-addr", "--main-process-ip")
_PORT = ("--master-port", "--main-process-port")
_ENDPOINT = ("--rdzv-endpoint",)
_JOB = ("--rdzv-id",)


@dataclass(frozen=True)
class Meeting:
    """`number` is this host's, or None where the command does not tell it."""

    hosts: int
    address: str
    port: int
    number: int | None = None
    wait_s: float = 120.0
    secret: str = field(default="", repr=False)
    job: str = ""  # what the launcher calls it, on all hosts alike

    @property
    def key(self) -> bytes:
        """Of what hosts share: the secret; without one, what all know of the job, which strangers
        may guess."""
        return key_of(self.secret or f"{self.job} {self.hosts} {self.port}")

    @property
    def leads(self) -> bool:
        """Host 0; where hosts have no numbers, the one that the address belongs to."""
        return self.number == 0 if self.number is not None else _is_ours(self.address)

    def at(self, place: str) -> "Meeting":
        """At another HOST:PORT."""
        address, port = _endpoint(place, "--meet")
        return replace(self, address=address, port=port)


def meeting_of(command: Sequence[str], environment: Mapping[str, str]) -> Meeting | None:
    """None where the job runs on one host."""
    given = _options(command)
    hosts = _count(_first(given, _COUNT) or environment.get("SLURM_NTASKS", "1"))
    if hosts < 2:
        return None
    _require_each_started(given)
    number = _first(given, _NUMBER) or environment.get("SLURM_PROCID")
    address, port = _rendezvous(given, environment)
    return Meeting(
        hosts,
        address,
        port + BESIDE,
        int(number) if number else None,
        secret=environment.get(SECRET, ""),
        job=_first(given, _JOB) or environment.get("SLURM_JOB_ID", ""),
    )


def _require_each_started(given: Mapping[str, str]) -> None:
    """DeepSpeed's launcher starts the other hosts by itself, unless it is told not to."""
    if "--num-nodes" in given and "--no-ssh" not in given:
        raise TuneError(
            "deepspeed starts the job on other hosts by itself, where neither the recorder nor a "
            "plan would be; start `paceline tune -- deepspeed --no_ssh --node_rank N "
            "--master_addr HOST ...` on each host"
        )


def _rendezvous(given: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str, int]:
    if endpoint := _first(given, _ENDPOINT):
        return _endpoint(endpoint, "--rdzv-endpoint")
    address = _first(given, _ADDRESS) or environment.get("MASTER_ADDR", "")
    if not address:
        raise TuneError(
            "the job runs on several hosts, and its command does not say where they meet; give "
            "torchrun --rdzv-endpoint HOST:PORT (or --master-addr), or tune with --meet HOST:PORT"
        )
    port = _first(given, _PORT) or environment.get("MASTER_PORT", str(PORT))
    return _endpoint(f"{address}:{port}", "--master-port")


def _endpoint(text: str, option: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    if not address:
        address, port = text, str(PORT)
    if not (port.isdigit() and 0 < int(port) < 65536 - BESIDE):
        raise TuneError(f"{option} {text} was given; needed is HOST:PORT, as in 10.0.0.1:29500")
    return address.strip("[]"), int(port)


def _options(command: Sequence[str]) -> dict[str, str]:
    """Options of the launcher, spelt with hyphens; those behind the script are its own."""
    found: dict[str, str] = {}
    for word, following in zip(command, [*command[1:], ""]):
        if word.endswith(".py"):
            break
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            found.setdefault(name.replace("_", "-"), value if equals else following)
    return found


def _first(given: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((given[name] for name in names if name in given), None)


def _count(text: str) -> int:
    """`2`, or torchrun's `MIN:MAX`, of which all are waited for."""
    last = text.rpartition(":")[2]
    if not last.isdigit():
        raise TuneError(f"a number of hosts of {text!r} was given; needed is one such as 2")
    return int(last)


def _is_ours(address: str) -> bool:
    """Whether the address is one of this host's."""
    try:
        family, *_, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.bind(place)
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return False
        raise TuneError(f"{address}, where hosts meet, cannot be looked up: {error}") from error
    return True
