"""Workers on this machine, as many as are asked for: plain processes, and those of Dask and Ray."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec

Workers = Callable[[int], AbstractContextManager[str]]
"""Begins so many, and says where they are, as `--on` has it."""


@contextmanager
def processes(workers: int) -> Iterator[str]:
    """What two workers can bring here at most: they share nothing but the machine."""
    yield f"processes:{workers}"


@contextmanager
def dask(workers: int) -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster.scheduler_address.replace("tcp://", "dask://")


@contextmanager
def ray(workers: int) -> Iterator[str]:
    import logging

    import ray

    ray.init(address="local", num_cpus=workers, include_dashboard=False,
             logging_level=logging.ERROR, log_to_driver=False)  # fmt: skip
    try:
        yield "ray://"
    finally:
        ray.shutdown()


CLUSTERS: Mapping[str, Workers] = {"processes": processes, "dask": dask, "ray": ray}
_PACKAGES = {"dask": "distributed", "processes": "concurrent.futures"}


def there(name: str) -> bool:
    """Whether the cluster's package is installed."""
    return find_spec(_PACKAGES.get(name, name)) is not None
