"""What is counted while serving, and its text for Prometheus (exposition format 0.0.4)."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

BOUNDS_S: Final = tuple(base * 10.0**power for power in range(-3, 2) for base in (1, 2, 5))
"""Upper bounds of the buckets of latency: 1 ms to 50 s."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Histogram:
    """Cumulative only in its text."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass
class Metrics:
    """One server's counts."""

    requests: Counter[int] = field(default_factory=Counter)  # by HTTP status
    samples: int = 0
    batches: int = 0
    deaths: int = 0
    reconfigurations: int = 0
    latency_s: Histogram = field(default_factory=lambda: Histogram(BOUNDS_S))


@dataclass(frozen=True)
class Gauges:
    """How things stand at the moment of asking."""

    waiting: int
    running: int
    instances: int
    planned_batch: int
    load: float


def text(metrics: Metrics, gauges: Gauges) -> str:
    return "\n".join(_lines(metrics, gauges)) + "\n"


def _lines(metrics: Metrics, gauges: Gauges) -> Iterator[str]:
    yield from _head("requests_total", "counter", "Requests answered, by HTTP status.")
    for code, count in sorted(metrics.requests.items()):
        yield f'paceline_requests_total{{code="{code}"}} {count}'
    yield from _one("samples_total", "counter", "Samples answered.", metrics.samples)
    yield from _one("batches_total", "counter", "Batches run by instances.", metrics.batches)
    yield from _one("instance_deaths_total", "counter", "Instances that died.", metrics.deaths)
    yield from _one(
        "reconfigurations_total", "counter", "Changes of instances.", metrics.reconfigurations
    )
    yield from _one("waiting_samples", "gauge", "Samples in the queue.", gauges.waiting)
    yield from _one("running_samples", "gauge", "Samples that instances run.", gauges.running)
    yield from _one("instances", "gauge", "Instances that are ready.", gauges.instances)
    yield from _one("planned_batch", "gauge", "Batch that is planned for.", gauges.planned_batch)
    yield from _one("load_samples", "gauge", "Samples at once, averaged.", f"{gauges.load:.3f}")
    yield from _histogram("request_seconds", "Time of a request.", metrics.latency_s)


def _head(name: str, kind: str, what: str) -> Iterator[str]:
    yield f"# HELP paceline_{name} {what}"
    yield f"# TYPE paceline_{name} {kind}"


def _one(name: str, kind: str, what: str, value: object) -> Iterator[str]:
    yield from _head(name, kind, what)
    yield f"paceline_{name} {value}"


def _histogram(name: str, what: str, histogram: Histogram) -> Iterator[str]:
    yield from _head(name, "histogram", what)
    below = 0
    for bound, count in zip(histogram.bounds, histogram.counts):
        below += count
        yield f'paceline_{name}_bucket{{le="{bound:g}"}} {below}'
    yield f'paceline_{name}_bucket{{le="+Inf"}} {histogram.count}'
    yield f"paceline_{name}_sum {histogram.sum:.6f}"
    yield f"paceline_{name}_count {histogram.count}"
