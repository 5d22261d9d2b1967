"""One job under every choice that PyTorch's users make by hand, in turns within one run.

Each choice has a model of its own, so that all stand side by side: after some steps to settle, each
of several rounds trains some steps of every one, in random order, the same on all workers. Rank 0
writes the median step of each choice in each round. The choices are options of `examples/train.py`,
by name, as JSON.
"""

import argparse
import json
import random
import statistics
import sys
from argparse import Namespace
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
import train

SETTLING = 4  # steps: DDP lays its buckets anew behind the first, PowerSGD's hook begins at the 3rd
WARM = 1  # steps of each turn that do not count


def main() -> None:
    asked = arguments()
    options = {n: train.parse(("--model", asked.model, *o)) for n, o in asked.choices.items()}
    step = joined(options)
    for each in options:
        taken(step[each], SETTLING)
    rounds = [round_of(step, number, asked.steps) for number in range(asked.rounds)]
    if dist.get_rank() == 0:
        asked.out.write_text(json.dumps(rounds))
    dist.barrier()
    step.clear()
    train.leave()


def arguments() -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--choices", type=json.loads, required=True, metavar="JSON")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="that count, of each in a round")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def joined(options: dict[str, Namespace]) -> dict[str, train.Step]:
    """The first joins the other workers; all begin with the same weights."""
    (first, lead), *others = options.items()
    made = {first: train.prepare(lead)}
    for name, each in others:
        torch.manual_seed(each.seed + dist.get_rank())
        made[name] = train.PARALLEL[each.parallel](train.MODELS[each.model](), each)
    return made


def round_of(step: dict[str, train.Step], number: int, steps: int) -> dict[str, float]:
    """In ms."""
    order = random.Random(number).sample(sorted(step), len(step))
    return {name: round(statistics.median(turn(step[name], steps)) / 1e6, 2) for name in order}


def turn(step: train.Step, steps: int) -> list[int]:
    return taken(step, WARM + steps)[WARM:]


def taken(step: train.Step, steps: int) -> list[int]:
    """Wall nanoseconds of each."""
    dist.barrier()
    return [train.timed(step)[0] for _ in range(steps)]


if __name__ == "__main__":
    main()
