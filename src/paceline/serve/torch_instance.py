"""An instance at work: batches in, answers out, one at a time, until its link closes."""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping

import torch

from paceline.serve.frames import Message
from paceline.serve.links import receive, send
from paceline.serve.torch_model import ServedModel, as_array

GENTLE = 19
"""Nice value of the first runs of an instance, which others' requests should not feel."""


def serve_batches(link: socket.socket, model: ServedModel, threads: int) -> None:
    acts: Mapping[str, Callable[[Message], Message]] = {
        "run": lambda asked: _answered(model, asked),
        "example": lambda asked: _example(model, asked),
        "time": lambda asked: _timed(model, asked),
        "warm": lambda asked: _warmed(model, asked, threads),
    }
    while (asked := receive(link)) is not None:
        send(link, acts[asked.kind](asked))


def _answered(model: ServedModel, asked: Message) -> Message:
    """Whatever the user's model raises is an answer too: the instance lives on."""
    try:
        return Message("done", {}, model.answer(asked.arrays))
    except Exception as error:  # noqa: BLE001 - any fault of the user's model
        return Message("raised", {"reason": f"{type(error).__name__}: {error}"})


def _example(model: ServedModel, asked: Message) -> Message:
    """What the model makes of its own example, several times over."""
    outputs = model.run(model.repeated(asked.facts["batch"]))
    return Message("done", {}, {name: as_array(tensor) for name, tensor in outputs.items()})


def _timed(model: ServedModel, asked: Message) -> Message:
    """Begin and end of each of several runs, on the clock that all processes share."""
    inputs = model.repeated(asked.facts["batch"])
    stamps = []
    for _ in range(asked.facts["runs"]):
        begin = time.monotonic_ns()
        model.run(inputs)
        stamps.append((begin, time.monotonic_ns()))
    return Message("timed", {"stamps": stamps})


def _warmed(model: ServedModel, asked: Message, threads: int) -> Message:
    """What is done once (code made for this shape and thread count, pages) is done gently, in a
    thread of lower priority; then once more where requests will run, whose threads it starts."""
    inputs = model.repeated(asked.facts["batch"])

    def gently() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), GENTLE)
        torch.set_num_threads(threads)
        model.run(inputs)

    first = threading.Thread(target=gently)
    first.start()
    first.join()
    model.run(inputs)
    return Message("warm")
