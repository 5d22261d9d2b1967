"""One worker in the lab of `sharing.py`: all-reduces of much and of little. Worker 0 prints JSON:

seconds of `large` all-reduces, of small ones `idle` and `busy` (all workers compute beside them),
of small ones among the first two, three, ... workers (`members`, some times), of those that hold a
page among the same (`stalls`), of work beside that of all others (`crowding`) and begun with them
(`together`), and, while the others wait, of two workers' `blocks` under FSDP2, of passes after
`rests` and of products with `dtensors`.
"""

import json
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from paceline.launch.torch_parting import part
from paceline.measure.torch_blocks import sharded_blocks
from paceline.measure.torch_crowding import PAGE_BYTES, begun_together, crowding
from paceline.measure.torch_dtensors import dtensors
from paceline.measure.torch_rests import rests

TIMES = 3


def main(size_bytes: int, rounds: int, small_rounds: int) -> None:
    dist.init_process_group("gloo")
    large = _large(size_bytes, rounds)
    idle, busy = _small(small_rounds)
    members, stalls = _among_the_first(small_rounds)
    beside = {"crowding": crowding(), "together": begun_together()}
    alone, pair = dist.new_group([0]), dist.new_group([0, 1])
    blocks = sharded_blocks(pair) if dist.get_rank() < 2 else {}
    dist.barrier()
    if dist.get_rank() == 0:
        by_itself = {"rests": rests(), "dtensors": dtensors(alone), "blocks": blocks}
        reduced = {"large": large, "idle": idle, "busy": busy}
        few = {"members": members, "stalls": stalls}
        print(json.dumps({**reduced, **few, **beside, **by_itself}), flush=True)
    dist.barrier()
    part()


def _large(size_bytes: int, rounds: int) -> list[float]:
    """The first one warms up."""
    tensor = torch.ones(size_bytes // 4)
    return [_seconds(lambda: dist.all_reduce(tensor)) for _ in range(rounds)][1:]


def _seconds(run: Callable[[], object]) -> float:
    dist.barrier()
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _small(rounds: int) -> tuple[list[float], list[float]]:
    """In turn with nothing beside it and beside work, each from the last worker's call on."""
    few, matrix = torch.ones(2), torch.ones(128, 128)
    issued, ended = [], []
    for turn in range(2 * rounds):
        dist.barrier()
        issued.append(time.perf_counter())
        work = dist.all_reduce(few, async_op=True)
        while turn % 2 and not work.is_completed():
            matrix @ matrix  # a twentieth of a millisecond
        work.wait()
        ended.append(time.perf_counter())
    took = _after_the_last(issued, ended)
    return took[0::2], took[1::2]


def _after_the_last(issued: list[float], ended: list[float]) -> list[float]:
    """One clock: all workers are on this machine."""
    last = torch.tensor(issued, dtype=torch.float64)
    dist.all_reduce(last, dist.ReduceOp.MAX)
    took: list[float] = (torch.tensor(ended, dtype=torch.float64) - last).tolist()
    return took


def _among_the_first(rounds: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Among the first two, three, ... workers, while the others wait: of a few bytes the lower
    quartile, which is what the machine does when little else disturbs it, and of a page the mean of
    many in a row, for what stalls gloo's messages comes now and then, and who leaves one late comes
    late to the next."""
    few, page = torch.ones(2), torch.ones(PAGE_BYTES // 4)
    members, stalls = {}, {}
    for count in range(2, dist.get_world_size() + 1):
        group = dist.new_group(list(range(count)))
        short = [_among(group, few, rounds // TIMES) for _ in range(TIMES)]
        members[str(count)] = list(map(_lower_quartile, short))
        stalls[str(count)] = [_in_a_row(group, page, rounds) for _ in range(TIMES)]
    return members, stalls


def _among(group: object, tensor: torch.Tensor, rounds: int) -> list[float]:
    """Seconds of each all-reduce; none of a worker that is not in the group."""
    took = []
    if group != dist.GroupMember.NON_GROUP_MEMBER:
        for _ in range(rounds):
            dist.barrier(group)
            began = time.perf_counter()
            dist.all_reduce(tensor, group=group)
            took.append(time.perf_counter() - began)
    dist.barrier()
    return took


def _in_a_row(group: object, tensor: torch.Tensor, rounds: int) -> float:
    """Seconds of each all-reduce; 0 of a worker that is not in the group."""
    took = 0.0
    dist.barrier()
    if group != dist.GroupMember.NON_GROUP_MEMBER:
        began = time.perf_counter()
        for _ in range(rounds):
            dist.all_reduce(tensor, group=group)
        took = (time.perf_counter() - began) / rounds
    dist.barrier()
    return took


def _lower_quartile(took: list[float]) -> float:
    return sorted(took)[len(took) // 4] if took else 0.0


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
