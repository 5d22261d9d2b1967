"""Works in processes of their own, alone or as the ranks of one gloo job; their answers."""

import multiprocessing
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from paceline.runtime.stages.torch_links import Seat

fork = multiprocessing.get_context("fork")


def in_process(work: Callable[[], Any]) -> Any:
    """In a process of its own."""
    return in_processes([work])[0]


def in_processes(works: list[Callable[[], Any]]) -> list[Any]:
    """All at once, each in a process of its own; their answers."""

    def one(work: Callable[[], Any], end: Any) -> None:
        torch.set_num_threads(1)
        end.send(work())

    pipes = [fork.Pipe(duplex=False) for _ in works]
    running = [fork.Process(target=one, args=(work, pipe[1])) for work, pipe in zip(works, pipes)]
    for process, (_, end) in zip(running, pipes):
        process.start()
        end.close()
    answers = [pipe[0].recv() for pipe in pipes]
    for process in running:
        process.join()
    return answers


def in_ranks(count: int, work: Callable[[Seat], Any]) -> list[Any]:
    """The ranks of one gloo job."""
    with tempfile.TemporaryDirectory() as folder:

        def rank(number: int) -> Any:
            meeting = f"file://{folder}/store"
            dist.init_process_group("gloo", init_method=meeting, rank=number, world_size=count)
            made = work(Seat(number, count))
            dist.destroy_process_group()
            return made

        return in_processes([lambda n=n: rank(n) for n in range(count)])
