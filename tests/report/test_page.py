"""What a page is made of, without a browser: packing, carried strategies, rows, refusals."""

import json
import re
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.cluster import parse
from paceline.compare import diff, side_of_graph
from paceline.errors import FileError, ReplayError
from paceline.graph import Graph, GraphBuilder, Phase
from paceline.graph.synthetic.training import training
from paceline.graph.synthetic.training_job import TrainingJob
from paceline.predict import predict
from paceline.report.page import (
    MAGIC,
    PageRequest,
    carried_by_default,
    gather,
    gather_prediction,
    named,
    write_page,
)
from paceline.report.page.columns import Column, split
from paceline.report.page.contents import Kind
from paceline.report.page.write import page_of

SHELL = '<title>PACELINE_TITLE</title><script id="contents">PACELINE_DATA</script>'
CLUSTER = "hosts: 2\nlink: {rate: 1Gbps, latency: 50us}\n"


def test_equal_columns_are_kept_once() -> None:
    rows = np.arange(5_000) ** 2 % 4_099
    made = split({"a": Column(rows), "b": [Column(rows.copy()), Column(rows + 1)]})
    assert made.plain == {"a": {"column": "0"}, "b": [{"column": "0"}, {"column": "1"}]}
    assert list(made.columns) == ["0", "1"]


def test_small_numbers_are_kept_in_32_bits_and_typed_ones_as_they_are() -> None:
    small, large = np.array([1, -5]), np.array([1, 2**31])
    made = split([Column(small), Column(large), Column(small, typed=True)])
    assert [str(each.dtype) for each in made.columns.values()] == ["int32", "int64", "int64"]


def contents_of(page: str) -> Any:
    """The facts of a page's container."""
    found = re.search(r'id="contents">([^<]*)<', page)
    assert found
    container = b64decode(found[1])
    assert container.startswith(MAGIC)
    plain = zlib.decompress(container[len(MAGIC) :])
    header = json.loads(plain[4 : 4 + int.from_bytes(plain[:4], "little")])
    return header["facts"]["contents"]


def test_a_page_holds_names_as_text_alone() -> None:
    b = GraphBuilder()
    name = '</script><img onerror="x">\'\x00\u202e'
    b.op(name, b.lane(0, "main"), 1_000)
    page = page_of(gather(PageRequest(name, b.build())), SHELL)
    assert "<img" not in page
    assert not re.search("[\x00\u202e]", page)
    assert contents_of(page)["tracks"][0]["names"] == [name]


def test_a_headline_names_the_step_and_the_best_strategy_carried() -> None:
    job = training(TrainingJob(workers=2, layers=3, steps=3))
    asked = PageRequest("job", job, cluster=parse(CLUSTER), strategies=("bf16",))
    found = gather(asked)
    words = ["".join(piece.text for piece in sentence) for sentence in found.headline]
    base, other = found.scenarios
    assert words[0].startswith("A step takes ")
    assert other.step_ns < base.step_ns
    assert words[-1].startswith("Change one thing: bf16.")


def test_a_sentence_links_to_an_op_on_the_critical_path() -> None:
    job = training(TrainingJob(workers=2, layers=3, steps=3))
    found = gather(PageRequest("job", job, cluster=parse(CLUSTER)))
    linked = [p for sentence in found.headline for p in sentence if p.op is not None]
    names = found.tracks[0]
    assert linked
    assert linked[0].op in names.path["op"].values


def test_what_cannot_be_predicted_is_named_with_its_reason() -> None:
    job = training(TrainingJob(workers=2, layers=3, steps=3))
    found = gather(
        PageRequest("job", job, cluster=parse(CLUSTER), strategies=("workers(count=x)",))
    )
    assert [choice.name for choice in found.cannot] == ["workers(count=x)"]
    assert found.cannot[0].why_not


def test_without_a_cluster_links_cannot_be_slid_and_the_command_is_named() -> None:
    b = GraphBuilder()
    b.op("alone", b.lane(0, "main"), 1_000)
    rate, *_ = gather(PageRequest("one", b.build())).levers
    assert "two workers" in rate.why_not


def test_steps_that_differ_have_a_page_that_tells_by_how_much() -> None:
    b = GraphBuilder()
    lane = b.lane(0, "main")
    for step, lengths in enumerate(((1_000,), (1_000, 3_000), (2_000,))):
        for length in lengths:
            b.op("op", lane, length, step=step)
    found = gather(PageRequest("uneven", b.build()))
    assert found.steps_ns == (1_000, 4_000, 2_000)
    assert "its 3 recorded steps spread by" in "".join(piece.text for piece in found.headline[0])


def test_an_empty_graph_has_no_page() -> None:
    with pytest.raises(ReplayError, match="no ops"):
        gather(PageRequest("none", GraphBuilder().build()))


def slower(layer_ns: int) -> Graph:
    """One rank, three layers, five steps; the first layer takes so long."""
    b = GraphBuilder()
    lane = b.lane(0, "main thread")
    for step in range(5):
        for name, ns in (("one", layer_ns), ("two", 100_000), ("three", 100_000)):
            b.op("aten::mm", lane, ns + 7 * step, phase=Phase.FORWARD, layer=name, step=step)
    return b.build()


def test_a_second_run_tells_why_it_is_slower_and_leads_to_the_op() -> None:
    before, after = slower(100_000), slower(200_000)
    difference = diff(side_of_graph(before, "before"), side_of_graph(after, "after"))
    asked = PageRequest("before", before, other=after, other_name="after", difference=difference)
    found = gather(asked).difference
    assert found is not None
    assert found.verdict.startswith("after is slower by 100 us")
    first = found.causes[0]
    assert first.words == "layer one on all ranks"
    assert first.share_ns == pytest.approx(100_000, abs=100)
    assert first.track == Kind.MEASURED.value
    assert first.op is not None
    assert after.text(int(after.ops.layer[first.op])) == "one"
    assert [name for name, *_ in found.layers] == ["one"]


def test_a_page_of_one_run_tells_of_no_difference() -> None:
    assert gather(PageRequest("alone", slower(100_000))).difference is None


def test_analyses_are_tables_whose_names_lead_to_ops() -> None:
    graph = slower(100_000)
    made = gather(PageRequest("run", graph))
    by_topic = {each.topic: each for each in made.analyses}
    assert set(by_topic) == {"device", "idle", "kernels"}  # nothing recurs, is launched or copied
    kernels = by_topic["kernels"]
    assert kernels.rows[0][0] == "aten::mm"
    assert kernels.ops[0] is not None
    assert graph[kernels.ops[0]].name == "aten::mm"
    assert {len(row) for row in kernels.rows} == {len(kernels.columns)}
    assert (
        "tree, shapes, counters: this graph was not opened from a run" in made.missing["analyses"]
    )


def test_a_prediction_has_a_page_of_its_own_timeline() -> None:
    made = predict(training(TrainingJob(workers=2, layers=3, steps=3)), ["bf16"], parse(CLUSTER))
    found = gather_prediction(made)
    (only,) = found.scenarios
    assert (only.step_ns, found.step_ns) == (made.step_ns, made.step_ns)
    assert found.rests_on == made.rests_on
    assert "typical error" in found.headline[0][0].text
    (track,) = found.tracks
    assert track.columns["start"].values.tolist() == made.timeline.start_ns.tolist()


def test_strategies_are_named_as_on_the_command_line() -> None:
    job = training(TrainingJob(workers=2))
    assert named(["workers=2,4+bf16;buckets(size_bytes=1024)", "bf16", ""], job) == (
        "workers(count=2)+bf16",
        "workers(count=4)+bf16",
        "buckets(size_bytes=1024)",
        "bf16",
    )


def test_a_name_that_needs_settings_stands_for_some_worth_trying() -> None:
    job = training(TrainingJob(workers=2, layers=6))
    carried = named(["bf16;buckets", "workers=2,4,8,16,64"], job)
    assert carried[0] == "bf16"
    sizes = [text for text in carried if text.startswith("buckets(size_bytes=")]
    assert 1 <= len(sizes) <= 4
    assert carried[-1] == "workers(count=64)"
    made = gather(PageRequest("job", job, cluster=parse(CLUSTER), strategies=carried))
    assert [scenario.name for scenario in made.scenarios] == ["as recorded", *carried]
    assert named(["bukets"], job) == ("bukets",)


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
        write_page(gather(PageRequest("one", b.build())), tmp_path / "page.pdf")
