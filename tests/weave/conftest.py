"""Starting the workers of a live test, and showing what a failed one said."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def start_workers() -> Callable[..., None]:
    """`start_workers(script, ranks, meeting, *arguments)`."""
    return _start


def _start(script: str, ranks: int, meeting: Path, *arguments: str) -> None:
    """`script RANK RANKS MEETING ARGUMENTS` on each rank; every one must end with 0."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    path = Path(__file__).parent / script
    workers = [
        subprocess.Popen(
            [sys.executable, path, str(rank), str(ranks), meeting, *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(ranks)
    ]
    said = [worker.communicate(timeout=200)[1] for worker in workers]
    failed = [text for worker, text in zip(workers, said) if worker.returncode]
    assert not failed, failed[0][-3000:]
