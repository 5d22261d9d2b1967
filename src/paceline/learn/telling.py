"""What workers tell worker 0 of the rounds since they told it last: work, messages, who broke."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from paceline.learn.message import Message
from paceline.learn.record import ClientWork, Round, Trip


def told_of(rounds: Sequence[Round]) -> Message:
    """One worker's part of some rounds."""
    works = [
        [r.number, w.client, w.samples, w.whole_samples, w.cpu_s] for r in rounds for w in r.works
    ]
    trips = [
        [r.number, t.source, t.size_bytes, t.after, t.summed, *t.targets]
        for r in rounds
        for t in r.trips
    ]
    broken = [[r.number, client] for r in rounds for client in r.broken]
    return Message(
        {
            "works": np.array(works, np.float64).reshape(-1, 5),
            "trips": np.array([value for row in trips for value in row], np.int64),
            "lengths": np.array([len(row) for row in trips], np.int64),
            "merges": np.array([[r.number, r.merge_cpu_s] for r in rounds], np.float64),
            "broken": np.array(broken, np.int64).reshape(-1, 2),
        }
    )


def joined(own: Sequence[Round], told: Sequence[Message]) -> list[Round]:
    """Worker 0's rounds, with what all workers tell of them."""
    works: dict[int, list[ClientWork]] = {each.number: [] for each in own}
    trips: dict[int, list[Trip]] = {each.number: [] for each in own}
    merges = dict.fromkeys(works, 0.0)
    broken: dict[int, set[int]] = {each.number: set() for each in own}
    for message in told:
        for number, client, samples, whole, cpu_s in message.vectors["works"].tolist():
            works[int(number)].append(ClientWork(int(client), int(samples), whole, cpu_s))
        for number, source, size, after, summed, *targets in _rows(message):
            trips[number].append(Trip(source, tuple(targets), size, bool(after), bool(summed)))
        for number, client in message.vectors["broken"].tolist():
            broken[number].add(client)
        for number, cpu_s in message.vectors["merges"].tolist():
            merges[int(number)] += cpu_s
    return [
        replace(
            each,
            works=tuple(sorted(works[each.number], key=lambda w: w.client)),
            trips=tuple(sorted(trips[each.number], key=lambda t: (t.after, t.source, t.targets))),
            broken=tuple(sorted(broken[each.number])),
            merge_cpu_s=merges[each.number],
        )
        for each in own
    ]


def _rows(message: Message) -> list[list[Any]]:
    flat, found, at = message.vectors["trips"].tolist(), [], 0
    for length in message.vectors["lengths"].tolist():
        found.append(flat[at : at + length])
        at += length
    return found
