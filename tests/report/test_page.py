"""What a page is made of, without a browser: packing, carried strategies, rows, refusals."""

import json
import re
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cluster import parse
from paceline.errors import FileError, ReplayError
from paceline.graph import GraphBuilder
from paceline.graph.synthetic.training import training
from paceline.graph.synthetic.training_job import TrainingJob
from paceline.report.page import Asked, carried_by_default, gather, named, write_page
from paceline.report.page.block import Column, encoded, packed
from paceline.report.page.write import page_of

SHELL = '<title>PACELINE_TITLE</title><script id="contents">PACELINE_DATA</script>'
CLUSTER = "hosts: 2\nlink: {rate: 1Gbps, latency: 50us}\n"


def decoded(data: bytes, width: int, count: int, *, rising: bool) -> list[int]:
    """As web/src/unpack.ts reads a column."""
    planes = [data[plane * count : (plane + 1) * count] for plane in range(width)]
    folded = [sum(each[i] << (8 * p) for p, each in enumerate(planes)) for i in range(count)]
    values = [value >> 1 if value % 2 == 0 else -((value + 1) >> 1) for value in folded]
    return np.cumsum(values).tolist() if rising and values else values


@given(st.lists(st.integers(-(2**52), 2**52)), st.booleans())
def test_a_column_comes_back_as_it_was(values: list[int], rising: bool) -> None:
    data, width = encoded(Column(np.array(values, np.int64), rising))
    assert decoded(data, width, len(values), rising=rising) == values


def test_equal_columns_are_stored_once() -> None:
    rows = np.arange(5_000) ** 2 % 4_099
    once, twice = packed([Column(rows)]), packed([Column(rows), Column(rows.copy())])
    assert len(zlib.decompress(twice)) < len(zlib.decompress(once)) + 100


def contents_of(page: str) -> Any:
    """The JSON text of a page's block."""
    found = re.search(r'id="contents">([^<]*)<', page)
    assert found
    block = zlib.decompress(b64decode(found[1]))
    return json.loads(block[4 : 4 + int.from_bytes(block[:4], "little")])


def test_a_page_holds_names_as_text_alone() -> None:
    b = GraphBuilder()
    name = '</script><img onerror="x">\'\x00\u202e'
    b.op(name, b.lane(0, "main"), 1_000)
    page = page_of(gather(Asked(name, b.build())), SHELL)
    assert "<img" not in page
    assert not re.search("[\x00\u202e]", page)
    assert contents_of(page)["tracks"][0]["names"] == [name]


def test_a_headline_names_the_step_and_the_best_strategy_carried() -> None:
    job = training(TrainingJob(workers=2, layers=3, steps=3))
    asked = Asked("job", job, cluster=parse(CLUSTER), strategies=("bf16",))
    found = gather(asked)
    words = ["".join(piece.text for piece in sentence) for sentence in found.headline]
    base, other = found.scenarios
    assert words[0].startswith("A step takes ")
    assert other.step_ns < base.step_ns
    assert words[-1].startswith("Change one thing: bf16.")


def test_a_sentence_links_to_an_op_on_the_critical_path() -> None:
    job = training(TrainingJob(workers=2, layers=3, steps=3))
    found = gather(Asked("job", job, cluster=parse(CLUSTER)))
    linked = [p for sentence in found.headline for p in sentence if p.op is not None]
    names = found.tracks[0]
    assert linked
    assert linked[0].op in names.path["op"].values


def test_what_cannot_be_predicted_is_named_with_its_reason() -> None:
    job = training(TrainingJob(workers=2, layers=3, steps=3))
    found = gather(Asked("job", job, cluster=parse(CLUSTER), strategies=("workers(count=x)",)))
    assert [choice.name for choice in found.cannot] == ["workers(count=x)"]
    assert found.cannot[0].why_not


def test_without_a_cluster_links_cannot_be_slid_and_the_command_is_named() -> None:
    b = GraphBuilder()
    b.op("alone", b.lane(0, "main"), 1_000)
    rate, *_ = gather(Asked("one", b.build())).levers
    assert "two workers" in rate.why_not


def test_an_empty_graph_has_no_page() -> None:
    with pytest.raises(ReplayError, match="no ops"):
        gather(Asked("none", GraphBuilder().build()))


def test_strategies_are_named_as_on_the_command_line() -> None:
    assert named(["workers=2,4+bf16;buckets(size_bytes=1024)", "bf16", ""]) == (
        "workers(count=2)+bf16",
        "workers(count=4)+bf16",
        "buckets(size_bytes=1024)",
        "bf16",
    )


def test_a_job_without_replicas_carries_nothing_by_default() -> None:
    b = GraphBuilder()
    b.op("alone", b.lane(0, "main"), 1_000)
    assert carried_by_default(b.build(), parse(CLUSTER)) == ()
    job = training(TrainingJob(workers=2))
    assert "workers(count=4)" in carried_by_default(job, parse(CLUSTER))


def test_a_page_is_written_to_html_alone(tmp_path: Path) -> None:
    b = GraphBuilder()
    b.op("alone", b.lane(0, "main"), 1_000)
    with pytest.raises(FileError, match=r"end its name in \.html"):
        write_page(gather(Asked("one", b.build())), tmp_path / "page.pdf")
