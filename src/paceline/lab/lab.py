"""`Lab`: a cluster on one machine. Each host is a network namespace, each cable a shaped veth pair.

with Lab(cluster) as lab:
    finished = lab.run(["torchrun", "train.py"])
"""

import atexit
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from paceline.cluster import Cluster, dump, parse
from paceline.lab import commands, quota, registry
from paceline.lab.access import Access, open_access, require_tools
from paceline.lab.errors import LabError
from paceline.lab.launch import Finished, WorkerCommand, run_job, starts
from paceline.lab.layout import Stack
from paceline.lab.plan import plan
from paceline.lab.teardown import access_of, tear_down
from paceline.launch import unwinding
from paceline.record.job import InLab
from paceline.record.launch import launched_in


class Lab:
    """A lab that stands from `up` to `down`, or for the length of a `with` block.

    In a `with` block it goes also when the program ends or is told to; after a kill that nothing
    can catch, the next lab of that name, or `paceline lab down --all`, clears what is left.
    """

    def __init__(self, cluster: Cluster, name: str = "", stack: Stack | None = None) -> None:
        self.cluster = cluster
        self.layout = plan(cluster, name or f"lab-{os.getpid()}")
        if stack is not None:
            self.layout = replace(self.layout, stack=stack)
        self._entry = registry.Entry(self.layout.name, cluster=dump(cluster))
        self._access: Access | None = None
        self._block = ExitStack()

    def __enter__(self) -> "Lab":
        self._entry = replace(self._entry, owner=registry.Process.of(os.getpid()))
        with ExitStack() as stack:
            stack.enter_context(unwinding())
            atexit.register(self.down)
            stack.callback(atexit.unregister, self.down)
            stack.callback(self.down)
            self.up()
            self._block = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._block.close()

    def up(self) -> "Lab":
        """Build it. Fails, leaving nothing, where the name is in use or the kernel refuses."""
        _clear_if_abandoned(self.layout.name)
        if any(end.loss for wire in self.layout.wires for end in (wire.a, wire.b)):
            require_tools(["nft"])
        registry.claim(self._entry)
        try:
            self._access = open_access(ends_with_us=self._entry.owner is not None)
            if self._access.holder is not None:
                holder = registry.Process.of(self._access.holder)
                self._entry = replace(self._entry, holder=holder)
                registry.update(self._entry)
            self._access.run(commands.setup(self.layout))
            self._access.run(*commands.configure(self.layout))
        except BaseException:
            self.down()
            raise
        return self

    def down(self) -> None:
        """Remove it and whatever runs in it. Safe to call twice."""
        self._access = None
        tear_down(self.layout.name)

    @staticmethod
    def find(name: str) -> "Lab":
        """The standing lab of this name."""
        entry = registry.find(name)
        access = access_of(entry)
        if access is None or not entry.cluster:
            raise LabError(
                f"lab {name} is not whole: what built it, or kept it open, was killed. "
                f"Clear it with `paceline lab down --name {name}` and build it again."
            )
        lab = Lab(parse(entry.cluster), name)
        lab._entry, lab._access = entry, access
        return lab

    def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float = 600.0,
        environment: Mapping[str, str] | None = None,
        logs: Path | None = None,
        watch: Callable[[str], None] | None = None,
        enough: Callable[[], bool] = lambda: False,
    ) -> Finished:
        """Run a command on every worker and wait for it, or until `enough` is true. See `launch`
        for what it is given."""
        if self._access is None:
            raise LabError(f"lab {self.layout.name} is not up; call up(), or use a with block")
        if not command:
            raise LabError("no command was given; for example: lab run -- python train.py")
        asked = WorkerCommand(tuple(command), timeout_s, environment or {}, enough=enough)
        placed = InLab(list(command), dump(self.cluster))
        launched_in(placed, {**os.environ, **asked.environment})
        place = logs or Path(tempfile.mkdtemp(prefix=f"paceline-{self.layout.name}-"))
        place.mkdir(parents=True, exist_ok=True)
        return run_job(self._access, self.layout, asked, place, self._quotas(asked), watch)

    def _quotas(self, asked: WorkerCommand) -> dict[int, Path]:
        """A control group for every worker that may not use a whole machine."""
        limited = {n: s.cpus for n, s in enumerate(starts(self.layout, asked)) if s.cpus}
        if not limited:
            return {}
        controller = quota.controller()
        name = self.layout.name
        return {n: quota.make(controller, name, n, cpus) for n, cpus in limited.items()}


def said(cluster: Cluster, command: Sequence[str], timeout_s: float = 180.0) -> str:
    """What the first worker writes when a command runs in a lab of its own."""
    with Lab(cluster) as lab, tempfile.TemporaryDirectory(prefix="paceline-lab-") as logs:
        return lab.run(command, timeout_s=timeout_s, logs=Path(logs)).text(0)


def _clear_if_abandoned(name: str) -> None:
    with suppress(LabError):
        if registry.find(name).abandoned:
            tear_down(name)
