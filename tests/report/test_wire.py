"""The table of an incast."""

from paceline.lab.incast import IncastRow, Setting
from paceline.lab.overload import Load, Loaded
from paceline.lab.spraying import Sprayed
from paceline.report.text.wire import load_line, setting_line, sprayed_line, table
from paceline.wire.overload import Carried


def test_the_head_names_what_everyone_meets() -> None:
    assert "4 senders of 500 KB each, 100 Mbit/s, queues of 64 KB, no loss" in setting_line(
        Setting()
    )
    assert "5.0% of packets lost, in bursts of 4 ms" in setting_line(
        Setting(loss=0.05, loss_burst_ms=4)
    )
    assert "1.0% of packets lost, at random" in setting_line(Setting(loss=0.01))


def test_a_row_shows_its_p99_beside_the_ideal_and_what_it_did_without() -> None:
    row = IncastRow("ours", False, 0.1, 40, 170.0, 180.0, 190.0, 160.0, 0.0123)
    head, line = table([row])
    assert line.split() == ["ours", "170.0", "180.0", "190.0", "1.125", "1.230%"]
    assert head.split()[:4] == ["40", "rounds", "of", "each;"]
    assert len(head) == len(line) < 80


def test_an_overload_and_two_paths_are_told_in_a_line_each() -> None:
    sent = 100_000  # frames of 1,514 bytes
    important = Carried(sent, sent - 50, 1_000_000, 4_200_000, 9_000_000, 24.224)
    other = Carried(sent, sent // 2, 0, 0, 0, 15.14)
    assert load_line(Loaded(Load(), important, other)) == (
        "130% of a link offered: 0.050% of important packets lost, p99 delay 4.2 ms; 50.0% of "
        "others"
    )
    assert sprayed_line(Sprayed(46e6, 92e6)) == (
        "packets sprayed over two paths: 92.0 Mbit/s, 2.00 times one of them (46.0)"
    )
