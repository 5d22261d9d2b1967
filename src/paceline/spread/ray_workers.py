"""Workers of a Ray cluster; without an address, one that is started here. Needs the extra `ray`."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from paceline.spread.errors import SpreadError
from paceline.spread.pool import Held, Pool, Work


@contextmanager
def ray_workers(where: str, key: str, work: Work) -> Iterator[Pool]:
    """`where` is the head's host and port; `auto` finds the one of this machine."""
    if find_spec("ray") is None:
        raise SpreadError(
            "ray:// needs ray, which is not installed: pip install 'paceline[ray]', or take "
            "--on processes"
        )
    import ray

    begun = not ray.is_initialized()
    try:
        if begun:
            ray.init(
                address=where or "local",
                include_dashboard=None if where else False,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
    except (ConnectionError, ValueError) as error:
        raise SpreadError(
            f"no Ray cluster answers at {where}: {error}. Give its head's host and port, as in "
            "ray://10.0.0.1:6379, or ray:// to start workers here"
        ) from error
    try:
        workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        died = (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError)
        yield Pool(RayExecutor(), InRay(key, stored=(ray.put(work),)), workers, died)
    finally:
        if begun:
            ray.shutdown()


@dataclass(frozen=True)
class InRay(Held):
    """A work in Ray's store. In a tuple, for what a task is given by itself is unpacked anew for
    each task."""

    stored: tuple[Any, ...] = ()

    def brought(self) -> Work:
        import ray

        work: Work = ray.get(self.stored[0])
        return work


class RayExecutor(Executor):
    """Ray's tasks as futures; Ray gives a task whose worker died to another by itself."""

    def __init__(self) -> None:
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """A function is handed to the cluster once: that costs as much as some tasks."""
        import ray

        if fn not in self._remote:
            self._remote[fn] = ray.remote(fn)
        done: Future[Any] = self._remote[fn].remote(*args, **kwargs).future()
        return done
