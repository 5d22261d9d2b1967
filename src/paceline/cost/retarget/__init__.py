"""A recording carried over: to other numbers of workers, buckets, batches, devices, exchanges."""

from paceline.cost.retarget.buckets import (
    DEFAULT_BUCKET_BYTES,
    FIRST_BUCKET_BYTES,
    buckets_of,
)
from paceline.cost.retarget.device import DeviceFactor, device_factor
from paceline.cost.retarget.emit import emit
from paceline.cost.retarget.job import Beat, BeatKind, Call, Job, RetargetError, read_job
from paceline.cost.retarget.target import Exchange, Target

__all__ = [
    "DEFAULT_BUCKET_BYTES",
    "FIRST_BUCKET_BYTES",
    "Beat",
    "BeatKind",
    "Call",
    "DeviceFactor",
    "Exchange",
    "Job",
    "RetargetError",
    "Target",
    "buckets_of",
    "device_factor",
    "emit",
    "read_job",
]
