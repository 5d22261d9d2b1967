"""The scan of Chrome-format JSON: native equals plain, damaged events are mended."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.engine import native
from paceline.trace.readers.rawevents import TEXT_BASE, RawEvents
from paceline.trace.readers.repair import mended
from paceline.trace.readers.scan import plain_scan, scan
from paceline.trace.readers.source import sources


def is_whole(number: float) -> bool:
    return isinstance(number, int)


needs_native = pytest.mark.skipif(native() is None, reason="the native core is not built")


def cut(text: bytes, size: int) -> list[bytes]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def told(raw: RawEvents) -> dict[str, Any]:
    """All that a scan found, with names in place of their indices."""
    found: dict[str, Any] = {"whole": raw.whole, "lost": raw.lost, "repaired": raw.repaired}
    for table in ("ranges", "arrows", "memory"):
        for item in fields(getattr(raw, table)):
            column = getattr(getattr(raw, table), item.name).tolist()
            if item.name in ("name", "category"):
                column = [raw.names[i] for i in column]
            if item.name == "form":
                column = [raw.forms[i] if i >= 0 else b"" for i in column]
            if item.name in ("pid", "tid"):
                column = [raw.names[TEXT_BASE - i] if i <= TEXT_BASE else i for i in column]
            found[f"{table}.{item.name}"] = column
    found["details"] = [(row, json.loads(args)) for row, args in raw.details]
    found["metadata"] = len(raw.metadata)
    return found


@needs_native
def test_the_native_scan_equals_the_plain_one_on_every_real_trace(real_traces: Path) -> None:
    for source in sources([real_traces]):
        chunks = list(source.chunks())
        assert told(scan(chunks)) == told(plain_scan(chunks)), source.name


@pytest.mark.parametrize("run", [scan, plain_scan])
def test_a_number_given_as_text_is_that_number_and_other_text_is_none(run: Any) -> None:
    def event(value: Any) -> dict[str, Any]:
        args = {"correlation": value, "bytes": value, "stream": value}
        return {"ph": "X", "name": "hipMemcpy", "ts": 1, "dur": 1, "args": args}

    given = ["123", "-5", "0x7f", "", "9" * 30, True, None, [7], 4, 6.75]
    text = json.dumps({"traceEvents": [event(value) for value in given]}).encode()
    found = run([text])
    meant = [123, -5, -1, -1, -1, -1, -1, -1, 4, 6]
    assert found.ranges.correlation.tolist() == meant
    assert found.ranges.size_bytes.tolist() == found.ranges.stream.tolist() == meant
    assert found.lost == 0


@pytest.mark.parametrize("run", [scan, plain_scan])
def test_a_moment_given_as_text_is_that_moment_and_other_text_loses_its_event(run: Any) -> None:
    given = ["1500", "soon", "nan", 7]
    events = [{"ph": "X", "name": "a", "ts": ts, "dur": "2"} for ts in given]
    found = run([json.dumps({"traceEvents": events}).encode()])
    assert found.ranges.start_ns.tolist() == [1_500_000, 7_000]
    assert found.ranges.dur_ns.tolist() == [2_000, 2_000]
    assert found.lost == 2


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
args = st.dictionaries(
    st.sampled_from(["correlation", "stream", "bytes", "External id", "Sequence number"]),
    st.one_of(
        st.integers(0, 2**40),
        st.integers(-(10**20), 10**20).map(str),
        st.sampled_from(["", "0x1", " 7", "1.5", "-", True, None]),
    ),
    max_size=3,
)
times = st.integers(0, 10**15).map(lambda ns: ns / 1000 if ns < 2**43 else ns // 1000)
events = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "B", "E", "C", "s", "f", "i", "M"]), "name": texts},
    optional={
        "cat": texts,
        "pid": st.one_of(st.integers(-5, 10**6), texts),
        "tid": st.integers(-(10**9), 10**9),
        "ts": times,
        "dur": times,
        "args": args,
    },
)


@needs_native
@settings(deadline=None, max_examples=120)
@given(st.lists(events, max_size=8), st.integers(1, 97), st.sampled_from([None, 1]))
def test_where_a_file_is_cut_into_chunks_changes_nothing(
    rows: list[dict[str, Any]], size: int, indent: int | None
) -> None:
    text = json.dumps({"schemaVersion": 1, "traceEvents": rows, "end": 1}, indent=indent).encode()
    assert told(scan(cut(text, size))) == told(plain_scan([text]))


BEYOND = {
    "pid": int("9" * 67),
    "tid": -(2**41),  # would be taken for text
    "ts": int("8" * 40),
    "dur": 1e300,
    "id": 2**64,
}


@pytest.mark.parametrize("run", [scan, plain_scan])
@pytest.mark.parametrize("field", BEYOND)
def test_an_event_with_a_number_beyond_any_column_is_lost_and_counted(run: Any, field: str) -> None:
    event = {
        "ph": "s",
        "cat": "fwdbwd",
        "name": "a",
        "ts": 1,
        "dur": 1,
        "pid": 1,
        "tid": 1,
        "id": 1,
    }
    bad = {**event, field: BEYOND[field]}
    if field == "dur":
        event["ph"] = bad["ph"] = "X"
    text = json.dumps({"traceEvents": [event, bad, event]}).encode()
    found = run([text])
    assert (len(found.ranges) + len(found.arrows.mark), found.lost, found.whole) == (2, 1, True)


@pytest.mark.parametrize("run", [scan, plain_scan])
def test_an_argument_beyond_any_column_loses_its_event_alone(run: Any) -> None:
    def event(correlation: int) -> dict[str, Any]:
        return {"ph": "X", "name": "ncclKernel", "ts": 1, "args": {"correlation": correlation}}

    text = json.dumps({"traceEvents": [event(1), event(10**30), event(2**63 - 1)]}).encode()
    found = run([text])
    assert (found.ranges.correlation.tolist(), found.lost) == ([1, 2**63 - 1], 1)
    assert [row for row, _ in found.details] == [0, 1]


huge = st.one_of(
    st.integers(-(10**70), 10**70),
    st.sampled_from([2**61 // 1000 + d for d in (-1, 0, 1, 2)]),
    st.sampled_from([s * 2**63 + d for s in (-1, 1) for d in (-1, 0, 1)]),
    st.floats(1e14, 1e40),
)


@needs_native
@settings(deadline=None, max_examples=150)
@given(
    st.dictionaries(st.sampled_from(["ts", "dur"]), huge),
    st.dictionaries(st.sampled_from(["pid", "tid", "correlation", "bytes"]), huge.filter(is_whole)),
)
def test_both_scans_lose_the_same_numbers(times: dict[str, float], numbers: dict[str, int]) -> None:
    own = {key: numbers[key] for key in numbers if key in ("pid", "tid")}
    args = {key: numbers[key] for key in numbers if key not in own}
    event = {"ph": "X", "name": "a", "cat": "kernel", **times, **own, "args": args}
    text = json.dumps({"traceEvents": [event, {"ph": "X", "name": "b", "ts": 1}]}).encode()
    assert told(scan([text])) == told(plain_scan([text]))


def test_fractions_of_a_microsecond_are_read_exactly() -> None:
    text = b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 4458676522690.655, "dur": 0.001}]}'
    for found in (scan([text]), plain_scan([text])):
        assert found.ranges.start_ns.tolist() == [4458676522690655]
        assert found.ranges.dur_ns.tolist() == [1]


BROKEN = {
    "unescaped quotes in a name": rb'{"ph": "X", "name": "a "b" c", "ts": 2, "dur": 1}',
    "a backslash that escapes nothing": rb'{"ph": "X", "name": "C:\Users\x", "ts": 2, "dur": 1}',
    "not a number": rb'{"ph": "X", "name": "k", "ts": 2, "dur": 1, "args": {"o": nan, "p": -inf}}',
    "a quote in an argument": rb'{"ph": "X", "name": "k", "ts": 2, "dur": 1, "args": {"o": "a"b"}}',
}


@pytest.mark.parametrize("damage", BROKEN)
@pytest.mark.parametrize("run", [scan, plain_scan])
def test_an_event_of_invalid_json_is_mended_and_its_neighbours_are_untouched(
    damage: str, run: Any
) -> None:
    whole = b'{"ph": "X", "name": "before", "ts": 1, "dur": 1}'
    last = b'{"ph": "X", "name": "after", "ts": 3, "dur": 1}'
    text = b'{"traceEvents": [' + b",\n ".join([whole, BROKEN[damage], last]) + b'], "end": 1}'
    found = run([text])
    assert sorted(found.ranges.start_ns.tolist()) == [1000, 2000, 3000]
    assert (found.repaired, found.lost, found.whole) == (1, 0, True)


@pytest.mark.parametrize("run", [scan, plain_scan])
def test_an_event_beyond_repair_is_counted_as_lost(run: Any) -> None:
    text = b'{"traceEvents": [{"ph": "X", "ts": 1}, {"ph": "X", : :}, {"ph": "X", "ts": 3}]}'
    found = run([text])
    assert (len(found.ranges), found.lost) == (2, 1)


@pytest.mark.parametrize("run", [scan, plain_scan])
def test_a_document_that_stops_in_the_middle_is_not_whole(run: Any) -> None:
    text = b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1}, {"ph": "X", "na'
    found = run([text])
    assert not found.whole
    assert len(found.ranges) == 1


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=60))
def test_mending_never_fails_whatever_the_bytes(text: bytes) -> None:
    assert isinstance(mended(text), bytes)


def test_mending_leaves_valid_json_as_it_means() -> None:
    event = {"name": 'quote " and \\ slash', "args": {"list": ["a", "b"], "x": 1.5, "y": None}}
    assert json.loads(mended(json.dumps(event).encode())) == event


@pytest.mark.parametrize("run", [scan, plain_scan])
def test_memory_stays_bounded_however_long_the_file(run: Any) -> None:
    """Events that are not kept leave nothing behind: the text is dropped as it is read."""
    import tracemalloc

    event = b'{"ph": "C", "name": "counter", "ts": 1, "args": {"x": "' + b"y" * 200 + b'"}},\n'
    block = event * 4000  # 1 MB

    def chunks(count: int) -> Any:
        yield b'{"traceEvents": [\n'
        for _ in range(count):
            yield block
        yield b'{"ph": "X", "name": "last", "ts": 1, "dur": 1}]}'

    def peak(count: int) -> int:
        tracemalloc.start()
        assert len(run(chunks(count)).ranges) == 1
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(24) < peak(12) * 1.2 + 2_000_000


def test_a_stamp_with_an_exponent_is_read_alike_by_both() -> None:
    text = b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1.5e3, "dur": 2E0}]}'
    assert scan([text]).ranges.start_ns.tolist() == [1_500_000]
    assert np.array_equal(plain_scan([text]).ranges.dur_ns, scan([text]).ranges.dur_ns)
