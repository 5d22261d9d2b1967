"""Kineto documents drawn by hand."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Document:
    """A Kineto trace of one rank; times in microseconds."""

    rank: int | None = 0
    world_size: int = 1
    header: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)

    def event(self, cat: str, name: str, start: float, dur: float, **given: Any) -> "Document":
        place = {"pid": given.pop("pid", 1), "tid": given.pop("tid", 1)}
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, **place, "ts": start, "dur": dur, "args": given}
        )
        return self

    def op(self, name: str, start: float, dur: float, **args: Any) -> "Document":
        return self.event("cpu_op", name, start, dur, **args)

    def step(self, number: int, start: float, dur: float) -> "Document":
        return self.event("user_annotation", f"ProfilerStep#{number}", start, dur)

    def call(
        self, name: str, start: float, dur: float, correlation: int, **args: Any
    ) -> "Document":
        return self.event("cuda_runtime", name, start, dur, correlation=correlation, **args)

    def kernel(
        self, name: str, start: float, dur: float, correlation: int, stream: int = 7, **args: Any
    ) -> "Document":
        args = {"stream": stream, "device": 0, "correlation": correlation, **args}
        return self.event("kernel", name, start, dur, pid=0, tid=stream, **args)

    def text(self) -> bytes:
        told: dict[str, Any] = {"schemaVersion": 1, **self.header}
        if self.rank is not None:
            told["distributedInfo"] = {"rank": self.rank, "world_size": self.world_size}
        return json.dumps({**told, "traceEvents": self.events, "traceName": "x"}, indent=1).encode()

    def save(self, path: Path) -> Path:
        packed = path.suffix == ".gz"
        path.write_bytes(gzip.compress(self.text()) if packed else self.text())
        return path


@pytest.fixture(scope="session")
def document() -> Callable[..., Document]:
    return Document
