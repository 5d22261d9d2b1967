"""`Template`: the process that holds the model, from which instances are forked."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from typing import Any, Final

from paceline.launch import Process, Running, start
from paceline.serve.errors import ServeError
from paceline.serve.frames import Message
from paceline.serve.instance import Instance, MessageLink
from paceline.serve.signature import Signature

BUILD_S: Final = 600.0
FORK_S: Final = 60.0
_TICK_S: Final = 0.05
_BUFFER_BYTES: Final = 1 << 22


@dataclass(frozen=True)
class Built:
    """What the process tells of the model."""

    model: str  # digest
    torch: str
    signature: Signature
    threads: int  # of the process; more than one may not survive a fork


@dataclass(frozen=True)
class Packing:
    """What was prepacked of a model's weights, or why nothing was."""

    weights: int
    folded: int  # batch norms
    why: str


class Template:
    """Forks instances, on prepacked weights where `prepacked` says so. Opened by `template`."""

    def __init__(self, link: MessageLink, built: Built, waiting: "_Waiting") -> None:
        self.built = built
        self.prepacked = False
        self._link, self._waiting = link, waiting
        self._keys = count()

    async def prepack(self) -> Packing:
        """Lay weights out for oneDNN, beside the model as it was written."""
        await self._link.send(Message("prepack", {}))
        answer = await asyncio.wait_for(self._link.receive(), BUILD_S)
        return Packing(**answer.facts)

    async def instance(self, processors: tuple[int, ...]) -> Instance:
        """A new one, pinned, with a thread for each processor; not warm yet."""
        key = next(self._keys)
        connected = self._waiting.expect(key)
        try:
            facts = {"key": key, "processors": processors, "prepacked": self.prepacked}
            await self._link.send(Message("fork", facts))
            link, told = await asyncio.wait_for(connected, FORK_S)
        except (asyncio.TimeoutError, ConnectionError) as error:
            raise ServeError(
                f"no instance could be forked: {type(error).__name__}. The model's process runs "
                f"{self.built.threads} threads; threads that `build` starts may not survive a fork"
            ) from error
        return Instance(link, told["pid"], processors)

    @asynccontextmanager
    async def instances(self, processors: Sequence[tuple[int, ...]]) -> AsyncIterator["Instances"]:
        """One on each of these groups of processors, until the block ends."""
        started: Instances = []
        try:
            for each in processors:
                started.append(await self.instance(each))
            yield started
        finally:
            await asyncio.gather(*(one.end() for one in started))


Instances = list[Instance]


@asynccontextmanager
async def template(target: str) -> AsyncIterator[Template]:
    """The model's process, loaded; it and all instances end with the block."""
    if sys.platform != "linux":
        raise ServeError(
            f"instances are forked and pinned as Linux does it; this is {sys.platform}"
        )
    if find_spec("torch") is None:
        raise ServeError("serving needs torch: pip install 'paceline[torch]'")
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        path, waiting = os.path.join(folder, "instances"), _Waiting()
        server = await asyncio.start_unix_server(waiting.connected, path, limit=_BUFFER_BYTES)
        command = (sys.executable, "-m", "paceline.serve.torch_template", path, target)
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # its threads would be forked
        async with server:
            with start(Process(command, environment)) as running:
                try:
                    link, built = await asyncio.wait_for(_built(waiting, running), BUILD_S)
                    yield Template(link, built, waiting)
                finally:
                    waiting.close()


async def _built(waiting: "_Waiting", running: Running) -> tuple[MessageLink, Built]:
    while not waiting.built.done():
        if (code := running.wait(0)) is not None:
            raise ServeError(f"the model's process ended with exit code {code} before it was ready")
        await asyncio.wait([waiting.built], timeout=_TICK_S)
    link, message = waiting.built.result()
    if message.kind == "failed":
        raise ServeError(message.facts["reason"])
    facts = dict(message.facts)
    facts["signature"] = Signature.of(facts["signature"])
    return link, Built(**facts)


class _Waiting:
    """Whose connection is awaited: the template's first, then each instance's by its key."""

    def __init__(self) -> None:
        self.built: asyncio.Future[tuple[MessageLink, Message]] = _future()
        self._instances: dict[int, asyncio.Future[tuple[MessageLink, dict[str, int]]]] = {}
        self._links: list[MessageLink] = []

    def expect(self, key: int) -> "asyncio.Future[tuple[MessageLink, dict[str, int]]]":
        self._instances[key] = _future()
        return self._instances[key]

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = MessageLink(reader, writer)
        self._links.append(link)
        try:
            message = await link.receive()
        except (EOFError, ConnectionError):
            link.close()  # it died before it said who it is; who waits for it is told by time
            return
        if message.kind == "instance":
            expected = self._instances.pop(message.facts["key"], None)
            if expected is not None and not expected.done():
                expected.set_result((link, dict(message.facts)))
        elif not self.built.done():
            self.built.set_result((link, message))

    def close(self) -> None:
        """Every link, also of instances that came too late or that nobody ended."""
        for link in self._links:
            link.close()


def _future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()
