"""A job of one's own in a sweep: a command with places that each measurement fills.

    torchrun --nproc-per-node {workers} train.py --batch {batch} --steps {steps}

`{batch}` is what a worker's step takes, `{steps}` how many optimizer steps a measurement needs: a
job that trains longer is measured too, and takes as long as it trains.
"""

from collections.abc import Sequence
from pathlib import PurePath

from paceline.bench.errors import BenchError
from paceline.bench.point import Key


def named_after(command: Sequence[str]) -> str:
    """What reports call the job: its script, or its program."""
    scripts = [part for part in command if part.endswith(".py")]
    return PurePath(scripts[0]).stem if scripts else PurePath(command[0]).name


def checked(command: Sequence[str], batches: Sequence[int], workers: Sequence[int]) -> None:
    """An error where a sweep would measure the same again and again."""
    line = " ".join(command)
    if "{batch}" not in line or not batches:
        raise BenchError(
            f"the job is {line!r}, with batch sizes {list(batches)}; give --batch-sizes, and put "
            "{batch} where the command takes it: --job 'python train.py --batch {batch}'"
        )
    if len(workers) > 1 and "{workers}" not in line:
        raise BenchError(
            f"the job is {line!r}, with workers {list(workers)}; put {{workers}} where the command "
            "takes their number: --job 'torchrun --nproc-per-node {workers} train.py ...'"
        )


def filled(command: Sequence[str], key: Key, steps: int) -> tuple[str, ...]:
    places = {"{batch}": key.batch, "{workers}": key.workers, "{steps}": steps}
    return tuple(_filled(part, places) for part in command)


def _filled(part: str, places: dict[str, int]) -> str:
    for place, value in places.items():
        part = part.replace(place, str(value))
    return part
