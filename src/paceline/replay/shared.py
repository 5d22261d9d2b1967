"""What ops of a replay share with others, as flat columns: what engines read, and a page carries.

`sort`, `device`, `slowed` and `carried` are there always; `hosts_...` where ranks share cores;
`shaped_...` or `flows_...` where transfers cross links that a table describes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.replay.contention import Contention, Slowdown, sorts
from paceline.replay.job import ReplayJob

Columns = dict[str, NDArray[Any]]


def shared_columns(job: ReplayJob) -> Columns | None:
    """All of them; None where the transfers are a Python object, which no column describes."""
    links = links_of(job)
    return None if links is None else own_columns(job) | host_columns(job, "hosts_") | {**links}


def own_columns(job: ReplayJob) -> Columns:
    """Compute and communication that slow each other, and which ops transfers carry."""
    graph, shares = job.graph, job.shares
    contention = shares.contention or Contention((Slowdown(),) * len(graph.devices))
    carried = shares.transfers.carried if shares.transfers else np.zeros(len(graph), np.bool_)
    return {
        "sort": sorts(graph),
        "device": np.ascontiguousarray(graph.lanes.device),
        "slowed": contention.speeds().ravel(),
        "carried": carried.astype(np.uint8),
    }


def host_columns(job: ReplayJob, prefix: str = "") -> Columns:
    """Cores that ranks share; empty where they do not."""
    found = job.on_hosts
    if found is None:
        return {}
    return {
        f"{prefix}machine": found.machine,
        f"{prefix}cores": np.array(found.hosts.cores, np.float64),
        f"{prefix}works": found.works.astype(np.uint8),
        f"{prefix}cpu": found.cpu_ns,
        f"{prefix}turn": found.turn_ns,
        f"{prefix}beside": found.beside_ns,
    }


def takes_cores(job: ReplayJob) -> bool:
    """Whether what transfers carry takes processor time."""
    transfers = job.shares.transfers
    return job.on_hosts is not None and transfers is not None and transfers.start_on is not None


def links_of(job: ReplayJob) -> Mapping[str, NDArray[Any]] | None:
    """The links that carry transfers; None where only a Python object knows them."""
    transfers = job.shares.transfers
    if transfers is None:
        return {}
    if transfers.columns is None:
        return None
    return transfers.columns(job.shares.hosts if transfers.start_on is not None else None)
