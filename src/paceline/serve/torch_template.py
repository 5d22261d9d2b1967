"""The process that loads the model once and forks an instance whenever it is asked for one.

python -m paceline.serve.torch_template SOCKET FILE.py:FUNCTION

Forked instances share the model's memory and are there in milliseconds, which is what changing them
under load needs. This process runs everything on one thread: OpenMP's pools do not survive a fork.
Wrong where there are several memory nodes: weights lie on the node on which they were loaded, and
instances on another one read them from there.
"""

import os
import signal
import socket
import sys
import threading
import traceback

import torch

from paceline.serve.errors import ServeError
from paceline.serve.frames import Message
from paceline.serve.links import receive, send
from paceline.serve.torch_instance import serve_batches
from paceline.serve.torch_model import ServedModel, built, digest, signature
from paceline.serve.torch_prepacked import Prepacked, prepacked


def main(path: str, target: str) -> None:
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    link = connected(path)
    try:
        model = built(target)
        told = signature(model, target)
    except ServeError as error:
        send(link, Message("failed", {"reason": str(error)}))
        return
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended instances leave nothing behind
    facts = {"model": digest(model, target), "torch": str(torch.__version__)}
    shapes = {"inputs": _shapes(told.inputs), "outputs": _shapes(told.outputs)}
    send(
        link, Message("built", {**facts, "signature": shapes, "threads": threading.active_count()})
    )
    forms = Forms(model)
    while (asked := receive(link)) is not None:
        if asked.kind == "prepack":
            send(link, Message("prepacked", forms.prepack()))
        elif os.fork() == 0:
            link.close()
            _become_instance(path, forms, asked)


class Forms:
    """The model as it was written, and on prepacked weights once that was asked for."""

    def __init__(self, model: ServedModel) -> None:
        self._model = model
        self._prepacked: Prepacked | None = None

    def prepack(self) -> dict[str, int | str]:
        """How much was packed, or why it could not be."""
        try:
            self._prepacked = prepacked(self._model)
        except Exception as error:  # noqa: BLE001 - the model serves as it was written
            return {"weights": 0, "folded": 0, "why": f"{type(error).__name__}: {error}"}
        return {"weights": self._prepacked.weights, "folded": self._prepacked.folded, "why": ""}

    def take(self, want_prepacked: bool, threads: int) -> ServedModel:
        """For this process, from now on."""
        if not want_prepacked or self._prepacked is None:
            return self._model
        self._prepacked.install(threads)
        return self._prepacked.model


def connected(path: str) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    return link


def _become_instance(path: str, forms: Forms, asked: Message) -> None:
    """Never returns: what the template would do next is not ours."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.sched_setaffinity(0, asked.facts["processors"])
        threads = len(asked.facts["processors"])
        torch.set_num_threads(threads)
        link = connected(path)
        send(link, Message("instance", {"key": asked.facts["key"], "pid": os.getpid()}))
        serve_batches(link, forms.take(asked.facts["prepacked"], threads), threads)
        code = 0
    except Exception:  # noqa: BLE001 - it is shown, and the process ends
        traceback.print_exc()
    finally:
        os._exit(code)


def _shapes(tensors: tuple[object, ...]) -> list[dict[str, object]]:
    return [vars(tensor) for tensor in tensors]


if __name__ == "__main__":
    main(*sys.argv[1:3])
