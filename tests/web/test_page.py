"""The page in a real headless Chromium, opened from disk without a network."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.cluster import Cluster, parse, with_settings
from paceline.cluster.machine import Machine
from paceline.compare import diff, side_of_graph
from paceline.graph import Axis, Collective, Graph, GraphBuilder, OpKind, Phase
from paceline.graph.synthetic.training import training
from paceline.graph.synthetic.training_job import TrainingJob
from paceline.predict import Prediction, Question, predict
from paceline.replay import replay
from paceline.report.page import PageRequest, gather, write_page
from paceline.report.text.quantities import duration
from paceline.strategies import Plan, Predicted, made_for, strategy
from paceline.strategies.sends import Sends
from paceline.viewer import Viewed, Viewer, serving

WEB = Path(__file__).parents[2] / "web"
REPORTS = Path(__file__).parents[2] / "examples" / "reports.py"
SHARED = Path(os.environ.get("PACELINE_SHARED", Path(__file__).parents[3] / "shared"))
TEMPLATE = Path(__file__).parents[2] / "src" / "paceline" / "report" / "page" / "template.html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
HOSTILE = '<img src=x onerror="window.hacked=1">\'"</script><script>window.hacked=1</script>'
LONG = "x" * 100_000
LAB = Question(machine=Machine(2, cpu_ns_per_byte=1.5, turn_ns=300_000.0, rested=1.05))
PLACE = "hosts: 2\nlink: {rate: 1Gbps, latency: 50us}\n"
SAME = "scale(select='all', factor=1.0)"
MOVES = (
    ({}, 0),
    ({"rate": 8}, 0),  # four steps are a factor of two
    ({"rate": -4, "latency": 4}, 0),
    ({"rate": 0, "latency": 0, "forward": 4}, 0),
    ({"forward": 0, "communication": 8}, 0),
    ({"communication": 0}, 1),
    ({"rate": 8}, 1),
)

pytestmark = [
    pytest.mark.needs("node", "chromium", "webassembly"),
    pytest.mark.skipif(not TEMPLATE.exists(), reason="the page is not built: make page"),
    pytest.mark.skipif(
        not (WEB / "node_modules" / "playwright-core").is_dir(),
        reason="the page's packages are not installed: make page",
    ),
]


def job() -> Graph:
    return training(TrainingJob(workers=2, layers=3, steps=3))


def place(*settings: str) -> Cluster:
    return with_settings(parse(PLACE), list(settings))


def hostile() -> Graph:
    """Two ranks whose names are attacks: on markup, on terminals, on patience."""
    b = GraphBuilder()
    group, joined = b.group(HOSTILE, (0, 1), Axis.DATA), b.instance()
    for rank in (0, 1):
        lane = b.lane(rank, f"{HOSTILE}\x00\x1b[31m\u202egnp")
        b.op(HOSTILE, lane, 4_000 + 90_000 * rank, layer=f"</script>{HOSTILE}")
        b.op(LONG, lane, 5_000)
        moves = {"kind": OpKind.COLLECTIVE, "collective": Collective.ALL_REDUCE}
        b.op("a\x00b\x1b\u202ec", lane, 5_000, group=group, instance=joined, **moves)
    return b.build()


def alone() -> Graph:
    """One op on one rank."""
    b = GraphBuilder()
    b.op("alone", b.lane(0, "main"), 1_000)
    return b.build()


def layered(first_ns: int) -> Graph:
    """One rank, three layers, five steps; the first layer takes so long."""
    b = GraphBuilder()
    lane = b.lane(0, "main thread")
    for step in range(5):
        for name, ns in ((HOSTILE, first_ns), ("two", 100_000), ("three", 100_000)):
            b.op(f"op of {name}", lane, ns + 7 * step, phase=Phase.FORWARD, layer=name, step=step)
    return b.build()


def pair() -> PageRequest:
    """Two runs, the second with a layer of hostile name that takes longer."""
    before, after = layered(100_000), layered(200_000)
    found = diff(side_of_graph(before, "before"), side_of_graph(after, "after"))
    return PageRequest("before", before, other=after, other_name="after", difference=found)


def plan() -> Plan:
    """As a search writes it, with a reason that somebody else wrote."""
    strategies = (strategy("workers", count=4), strategy("buckets", size_bytes=4 << 20))
    return Plan(
        strategies,
        replace(made_for(job(), strategies, place()), torch="2.13.0"),
        Sends(3.0, 8e6, 12e6),
        Predicted(12_300_000, 11_000_000, 13_600_000, 6.15e6, 8.2e6, 3_000_000_000),
        (f"{strategies[1]}: hides 2.0 ms of the exchange; 8.2 ms without it", HOSTILE),
    )


def predicted(*settings: str) -> Prediction:
    return predict(job(), (SAME,), place(*settings))


def loose() -> int:
    """The op that could end much later without a longer step."""
    return int(np.argmax(predicted().timeline.slack_ns))


@pytest.fixture(scope="session")
def told(once: Callable[[str], AbstractContextManager[Path]]) -> Any:
    """What Chromium saw, of all pages."""
    with once("pages") as folder:
        file = folder / "told.json"
        if not file.exists():
            folder.mkdir(exist_ok=True)
            file.write_text(json.dumps(seen_in(folder)))
        return json.loads(file.read_text())


def seen_in(folder: Path) -> Any:
    """Pages written to the folder and looked at."""
    asked = PageRequest("run", job(), cluster=place(), strategies=("bf16", "workers(count=x)"))
    sound = write_page(gather(asked), folder / "sound.html")
    bad = write_page(gather(PageRequest(HOSTILE, hostile())), folder / "hostile.html")
    cut = folder / "cut.html"
    text = sound.read_text()
    data = re.search(r'id="contents">([^<]*)<', text)
    assert data
    cut.write_text(text[: data.end(1) - len(data[1]) // 10])
    edited = folder / "edited.html"
    middle = len(data[1]) // 2
    spoilt = "A" if data[1][middle] != "A" else "B"
    edited.write_text(text.replace(data[1], data[1][:middle] + 8 * spoilt + data[1][middle + 8 :]))
    one = write_page(gather(PageRequest("alone", alone())), folder / "alone.html")
    lab = replace(asked, question=LAB, strategies=("bf16",))
    shared = write_page(gather(lab), folder / "lab.html")
    frame = folder / "frame.html"
    frame.write_text(f"<!doctype html><h1>A notebook</h1>{replay(alone())._repr_html_()}")
    planned = folder / "plan.html"
    planned.write_text(
        '<!doctype html><html lang="en"><title>A notebook</title>'
        f"<main><h1>A notebook</h1>{plan()._repr_html_()}</main>"
    )
    two = write_page(gather(pair()), folder / "pair.html")
    runs = (Viewed(asked), Viewed(replace(asked, name="other run")))
    with serving(Viewer(runs, TEMPLATE.read_text())) as server:
        visits = {
            "sound": ("sound", sound),
            "dark": ("dark", sound),
            "hostile": ("hostile", bad),
            "plain": ("withoutWebAssembly", sound),
            "cut": ("damaged", cut),
            "edited": ("damaged", edited),
            "alone": ("alone", one),
            "slack": ("slackWhileDragging", sound),
            "drawn": ("drawings", sound),
            "lab": ("onSharedCores", shared),
            "pair": ("compared", two),
            "frame": ("framed", frame),
            "plan": ("framedPlan", planned),
            "live": ("served", server.address),
        }
        moved = [{"sliders": sliders, "scenario": scenario} for sliders, scenario in MOVES]
        return seen_of(visits, moves=moved, loose=loose())


def real_traces_here() -> list[str]:
    """Traces of real jobs, where the shared ones are there: one rank's and one with NCCL."""
    names = ("h100/gaunernst_bert-small-uncased__1016001", "nccl-metadata/nccl_data")
    found = (SHARED / "data" / "traces" / f"{name}.json.gz" for name in names)
    return [str(path) for path in found if path.exists()]


def seen_of(visits: dict[str, tuple[str, Any]], **more: Any) -> Any:
    """What web/test/browser.js tells of each visit, by its name; a visit is a way and a place."""
    request = {
        "chromium": next(path for name in BROWSERS if (path := shutil.which(name))),
        "visits": {name: (way, str(place)) for name, (way, place) in visits.items()},
        **more,
    }
    done = subprocess.run(
        ["node", str(WEB / "test" / "browser.js"), json.dumps(request)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_page_opens_from_disk_and_asks_for_nothing(told: Any) -> None:
    assert told["sound"]["title"] == "run · Paceline"
    assert told["sound"]["heading"].endswith("a step")
    assert [
        url for url in told["sound"]["requests"] if not url.startswith(("file:", "blob:"))
    ] == []
    assert told["sound"]["complaints"] == []


def test_a_slid_page_shows_what_python_predicts(told: Any) -> None:
    def step(*changes: str, at: Cluster | None = None) -> int:
        unchanged = "scale(select='all', factor=1.0)"
        return predict(job(), (*changes, unchanged), at or place()).step_ns

    forward = "scale(select='phase=forward', factor=0.5)"
    talk = "scale(select='kind=collective|send|recv|transfer', factor=0.25)"
    assert told["sound"]["steps"] == [
        step(),
        step(at=place("link.rate=4Gbps")),
        step(at=place("link.rate=500Mbps", "link.latency=100us")),
        step(forward),
        step(talk),
        step("bf16"),
        step("bf16", at=place("link.rate=4Gbps")),
    ]


def test_a_slid_page_shares_cores_as_python_does(told: Any) -> None:
    def step(*changes: str, at: Cluster | None = None) -> int:
        unchanged = "scale(select='all', factor=1.0)"
        return predict(job(), (*changes, unchanged), at or place(), LAB).step_ns

    forward = "scale(select='phase=forward', factor=0.5)"
    assert told["lab"]["steps"] == [
        step(),
        step(at=place("link.rate=4Gbps")),
        step(at=place("link.rate=500Mbps", "link.latency=100us")),
        step(forward),
        step("bf16"),
    ]
    assert step() != predict(job(), (), place()).step_ns
    assert told["lab"]["greyed"]


def test_a_served_page_predicts_what_it_is_asked_and_searches(told: Any) -> None:
    live = told["live"]
    assert live["step"] == predict(job(), ("bf16", "workers(count=4)", SAME), place()).step_ns
    assert live["elsewhere"] == predict(job(), ("bf16", SAME), place("link.rate=4Gbps")).step_ns
    assert live["command"].endswith("--with 'bf16'")
    assert "bf16" in live["refused"]
    assert "plans tried" in live["found"]
    assert live["other"] == "other run · Paceline"
    assert live["violations"] == []
    assert live["complaints"] == []


def test_keys_choose_an_op_search_finds_one_and_the_fragment_restores_it(told: Any) -> None:
    sound = told["sound"]
    assert sound["chosen"]
    assert "took" in sound["waits"]
    assert "gloo" in sound["match"]
    assert sound["restored"] == sound["match"]


def test_a_chart_exports_its_figures(told: Any) -> None:
    head, *rows = told["sound"]["download"].split("\r\n")
    assert head.startswith("host,rank,compute (ns)")
    assert len(rows) == 2


def test_a_table_of_times_exports_a_picture(told: Any) -> None:
    picture = told["sound"]["picture"]
    assert picture.startswith("<svg")
    assert "by layer" in picture


def test_the_page_prints_to_two_sheets(told: Any) -> None:
    assert told["sound"]["sheets"] == 2


def test_axe_finds_no_violation_in_light_or_dark(told: Any) -> None:
    assert told["sound"]["violations"] == []
    assert told["dark"]["violations"] == []
    assert told["dark"]["ground"] == "rgb(20, 23, 28)"


def test_hostile_names_are_shown_as_text(told: Any) -> None:
    seen = told["hostile"]
    assert "<img src=x onerror=" in seen["text"]
    assert "⟨1b⟩" in seen["text"]
    assert not re.search("[\x00\x1b\u202e]", seen["text"])
    assert not seen["ran"]
    assert seen["images"] == 0
    assert seen["complaints"] == []
    assert "<img" in seen["title"]


def test_a_browser_without_webassembly_says_so_and_shows_the_rest(told: Any) -> None:
    assert "WebAssembly" in told["plain"]["words"]
    assert told["plain"]["disabled"]
    assert told["plain"]["heading"] == told["sound"]["heading"]
    assert told["plain"]["complaints"] == []


@pytest.mark.parametrize("how", ["cut", "edited"])
def test_a_file_that_was_cut_short_or_edited_says_so(told: Any, how: str) -> None:
    assert "cut short or edited" in told[how]["text"]
    assert told[how]["complaints"] == []


def test_what_is_left_of_a_file_that_was_cut_short_is_shown(told: Any) -> None:
    headline = told["sound"]["heading"]
    assert headline.split(" a step")[0] in told["cut"]["text"]
    assert "Ops on the critical path" in told["cut"]["text"]


def test_a_run_of_one_op_has_a_page_that_answers(told: Any) -> None:
    assert told["alone"]["step"] == 500
    assert "No op of this run communicates" in told["alone"]["text"]
    assert told["alone"]["complaints"] == []


def test_a_second_run_tells_why_it_is_slower_and_leads_to_the_op(told: Any) -> None:
    seen = told["pair"]
    assert "after is slower by 100 us" in seen["text"]
    assert "<img src=x" in seen["text"]
    assert seen["chosen"].startswith("op of <img src=x")
    assert seen["complaints"] == []


def test_analyses_are_folded_tables_that_lead_into_the_timeline(told: Any) -> None:
    topics = told["pair"]["topics"]
    assert "Kernels on all ranks and in all steps" in topics
    assert "Busy and waiting, as shares of a lane's time" in topics
    assert told["pair"]["kernel"].startswith("op of ")
    assert told["pair"]["violations"] == []


def test_a_notebooks_frame_holds_the_whole_page(told: Any) -> None:
    seen = told["frame"]
    assert seen["heading"] == "1.00 µs a step"
    assert seen["step"] == 500
    assert seen["chosen"].startswith("alone")
    assert [url for url in seen["requests"] if not url.startswith(("file:", "about:"))] == []
    assert seen["complaints"] == []


def test_a_notebooks_frame_of_a_plan_holds_all_that_the_plan_says(told: Any) -> None:
    seen, made = told["plan"], plan().made_for
    assert made
    assert seen["strategies"] == [str(each) for each in plan().strategies]
    for words in ("12.3 ms a step, as predicted", "11.0 ms to 13.6 ms", "3.00 GB", "12.0 MB",
                  "8.20 ms to 6.15 ms (-25.0 %)", "hides 2.0 ms of the exchange",
                  made.model, made.cluster, "2.13.0", "A plan holds no run", HOSTILE):  # fmt: skip
        assert words in seen["text"]
    assert seen["charts"] == 0


def test_a_plans_frame_is_accessible_in_light_and_dark_and_asks_for_nothing(told: Any) -> None:
    seen = told["plan"]
    assert seen["violations"] == []
    assert seen["grounds"] == ["rgb(255, 255, 255)", "rgb(20, 23, 28)"]
    assert [url for url in seen["requests"] if not url.startswith(("file:", "about:"))] == []
    assert seen["complaints"] == []


def test_slack_follows_the_slider(told: Any) -> None:
    before, after = (
        int(predicted(*settings).timeline.slack_ns[loose()])
        for settings in ((), ("link.rate=500Mbps",))
    )
    assert before != after
    assert told["slack"]["before"] == duration(before).replace("us", "µs")
    assert told["slack"]["after"] == duration(after).replace("us", "µs")
    assert told["slack"]["complaints"] == []


def test_webgl_and_the_canvas_draw_the_same_picture(told: Any) -> None:
    drawn = told["drawn"]
    assert drawn["layers"] == {
        "webgl2": "visible",
        "lost": "hidden",
        "restored": "visible",
        "2d": "hidden",
    }
    assert drawn["differ"].pop("colours") > 20
    assert max(drawn["differ"].values()) < 0.002
    assert drawn["complaints"] == []


@pytest.mark.slow
def test_real_reports_are_made_by_one_command_and_open_from_disk(tmp_path: Path) -> None:
    command = [sys.executable, str(REPORTS), *real_traces_here()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    pages = [tmp_path / line.rsplit(" (", 1)[0] for line in done.stdout.splitlines()]
    assert [page.stem for page in pages][:2] == ["transformer", "resnet20"]
    told = seen_of({page.stem: ("real", page) for page in pages})
    for name, seen in told.items():
        assert seen["heading"].endswith("a step"), name
        assert seen["chosen"], name
        assert seen["after"] < seen["before"], name
        assert [url for url in seen["requests"] if not url.startswith(("file:", "blob:"))] == []
        assert seen["complaints"] == [], name
