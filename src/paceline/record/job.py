"""`job.json` of a recording: the command that was wrapped, who launched it, and how it ended."""

from pathlib import Path

import msgspec

from paceline.record.sidecar import FORMAT

JOB_NAME = "job.json"


class Here(msgspec.Struct, tag="here", tag_field="is", frozen=True):
    """The recorder started the command, and that is the training."""


class InLab(msgspec.Struct, tag="lab", tag_field="is", frozen=True):
    """A lab ran the training on its workers."""

    command: list[str]  # as it was given to the lab
    cluster: str  # YAML of what the lab stands for


class RecordedJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The command that was wrapped and how it ended, as the launcher writes it."""

    format: int = FORMAT
    job: str
    command: list[str]
    steps: int
    started_ns: int
    ended_ns: int = 0  # 0 while it runs
    exit_code: int | None = None
    launched: Here | InLab = Here()


def job_of(folder: Path) -> RecordedJob:
    """What the launcher wrote of the whole job."""
    return msgspec.json.decode((folder / JOB_NAME).read_bytes(), type=RecordedJob)


def keep_job(job: RecordedJob, folder: Path) -> None:
    (folder / JOB_NAME).write_bytes(msgspec.json.encode(job))
