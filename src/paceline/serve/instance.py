"""`Instance`: a forked copy of the model on its own cores, as the server sees it."""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from paceline.serve.errors import Failed
from paceline.serve.frames import LENGTHS, Arrays, Message, packed, unpacked

Stamps = Sequence[tuple[int, int]]
"""Begin and end of each run, in nanoseconds of the clock that all processes share."""


class InstanceDied(Failed):
    """The process has ended, or was ended because it did not answer."""


class MessageLink:
    """Messages over a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, message: Message) -> None:
        self._writer.writelines(packed(message))
        await self._writer.drain()

    async def receive(self) -> Message:
        """The next message; `EOFError` or `ConnectionError` where the other side has gone."""
        header_length, body_length = LENGTHS.unpack(await self._reader.readexactly(LENGTHS.size))
        header = await self._reader.readexactly(header_length)
        # a copy, because arrays of what was received can be written to
        return unpacked(header, bytearray(await self._reader.readexactly(body_length)))

    def close(self) -> None:
        self._writer.close()


class Instance:
    """One at a time may ask it. `gone` is set as soon as its process has ended."""

    def __init__(self, link: MessageLink, pid: int, processors: tuple[int, ...]) -> None:
        self.pid, self.processors = pid, processors
        self.gone = asyncio.Event()
        self._link = link
        self._answer: asyncio.Future[Message] | None = None
        self._listening = asyncio.ensure_future(self._listen())

    @property
    def threads(self) -> int:
        return len(self.processors)

    async def run(self, inputs: Arrays, limit_s: float) -> Message:
        """`done` with outputs, or `raised` with the reason of the model."""
        return await self.ask(Message("run", {}, inputs), limit_s)

    async def example(self, batch: int, limit_s: float) -> Arrays:
        """What the model makes of its own example, `batch` times over."""
        return (await self.ask(Message("example", {"batch": batch}), limit_s)).arrays

    async def timed(self, batch: int, runs: int, limit_s: float) -> Stamps:
        found = await self.ask(Message("time", {"batch": batch, "runs": runs}), limit_s)
        return [(begin, end) for begin, end in found.facts["stamps"]]

    async def warmed(self, batch: int, limit_s: float) -> None:
        await self.ask(Message("warm", {"batch": batch}), limit_s)

    async def ask(self, message: Message, limit_s: float) -> Message:
        """Its answer; an instance that gives none in time is ended."""
        if self.gone.is_set():
            raise InstanceDied(f"the instance {self.pid} has ended")
        self._answer = asyncio.get_running_loop().create_future()
        try:
            with suppress(ConnectionError):  # the listener tells of the end
                await self._link.send(message)
            return await asyncio.wait_for(self._answer, limit_s)
        except asyncio.TimeoutError:
            self.kill()
            raise InstanceDied(
                f"the instance {self.pid} gave no answer in {limit_s:.3g} s and was ended"
            ) from None
        finally:
            self._answer = None

    def kill(self) -> None:
        """It counts as gone from now on."""
        self.gone.set()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    async def end(self) -> None:
        """It ends by itself once its link is closed and its work is done."""
        self._link.close()
        await self._listening

    async def _listen(self) -> None:
        try:
            while True:
                message: Any = await self._link.receive()
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result(message)
        except (EOFError, ConnectionError):
            self._link.close()
            self.gone.set()
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(InstanceDied(f"the instance {self.pid} died"))
