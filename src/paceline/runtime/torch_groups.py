"""Groups for as long as a plan needs them, made by all ranks of the job together."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

from paceline.runtime.exchange import ExchangeError

Ranks = tuple[int, ...]


@contextmanager
def new_groups(wanted: Iterable[Ranks], backend: str = "gloo") -> Iterator[Mapping[Ranks, Any]]:
    """This rank's groups. All ranks come here, each with what it wants; torch has every rank make
    every group. Left by an error, they go with the job: others may still be in them."""
    mine = set(wanted)
    told: list[set[Ranks]] = [set()] * dist.get_world_size()
    dist.all_gather_object(told, mine)
    made = {
        ranks: dist.new_group(list(ranks), backend=backend) for ranks in sorted(set().union(*told))
    }
    yield {ranks: group for ranks, group in made.items() if ranks in mine}
    for ranks in sorted(mine):
        dist.destroy_process_group(made[ranks])


def require_gloo(group: Any, what: str) -> None:
    backend = dist.get_backend(group)
    if backend != "gloo":
        raise ExchangeError(
            f"{what} is done on gloo alone, and this job is on {backend}; leave it out of the plan"
        )
