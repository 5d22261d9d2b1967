"""Pipeline stages on a live job: schedules, weight versions, messages, checkpoints.

`schedule` is plain Python; what runs (`torch_worker`, `torch_checkpoint`, ...) needs torch and is
imported by its own name.
"""

from paceline.graph.schedules import Task, TaskKind
from paceline.runtime.stages.errors import PipelineError
from paceline.runtime.stages.schedule import (
    PipelineSchedule,
    Shape,
    check,
    in_flight,
    tasks,
    version_used,
    versions_kept,
)

__all__ = [
    "PipelineError",
    "PipelineSchedule",
    "Shape",
    "Task",
    "TaskKind",
    "check",
    "in_flight",
    "tasks",
    "version_used",
    "versions_kept",
]
