"""What ops share on the machines and links of a replay, as a page carries it."""

from paceline.errors import ReplayError
from paceline.replay.job import ReplayJob
from paceline.replay.shared import shared_columns, takes_cores
from paceline.report.page.pack import PageData


def conditions(job: ReplayJob) -> PageData:
    """Contention, shared cores and links, for the graph whose durations are replayed; empty where
    every op takes its own time."""
    if job.shares.nothing:
        return PageData({})
    columns = shared_columns(job)
    if columns is None:
        raise ReplayError(
            "a page cannot carry transfers that are a Python object: it has no Python. Use "
            "shaped_links or flows"
        )
    return PageData(columns, {"loaded": takes_cores(job)})
