"""Workers of a Dask cluster; without an address, one that is started here. Needs `distributed`,
which the extra `dask` brings."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from paceline.spread.errors import SpreadError
from paceline.spread.pool import Held, Pool, Work

PATIENCE_S = 20


@contextmanager
def dask_workers(where: str, key: str, work: Work) -> Iterator[Pool]:
    """`where` is the scheduler's host and port."""
    if find_spec("distributed") is None:
        raise SpreadError(
            "dask:// needs dask's distributed, which is not installed: pip install "
            "'paceline[dask]', or take --on processes"
        )
    from distributed import Client, KilledWorker, LocalCluster
    from distributed.client import FutureCancelledError

    cluster = None if where else LocalCluster(threads_per_worker=1, dashboard_address=None)
    try:
        with Client(cluster or f"tcp://{where}", timeout=PATIENCE_S) as client:
            workers = len(client.scheduler_info(n_workers=-1)["workers"])
            if not workers:
                raise SpreadError(f"the Dask cluster at {where} has no workers; start some")
            held = client.scatter(Held(key, work), broadcast=True)
            died = (KilledWorker, FutureCancelledError)
            yield Pool(client.get_executor(pure=False), held, workers, died)
    except OSError as error:
        raise SpreadError(
            f"no Dask scheduler answers at {where}: {error}. Give its host and port, as in "
            "dask://10.0.0.1:8786, or dask:// to start workers here"
        ) from error
    finally:
        if cluster is not None:
            cluster.close()
