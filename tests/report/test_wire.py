"""The table of an incast."""

from paceline.lab.incast import Row, Setting
from paceline.report.text.wire import setting_line, table


def test_the_head_names_what_everyone_meets() -> None:
    assert "4 senders of 500 KB each, 100 Mbit/s, queues of 64 KB, no loss" in setting_line(
        Setting()
    )
    assert "5.0% of packets lost, in bursts of 4 ms" in setting_line(
        Setting(loss=0.05, loss_burst_ms=4)
    )
    assert "1.0% of packets lost, at random" in setting_line(Setting(loss=0.01))


def test_a_row_shows_its_p99_beside_the_ideal_and_what_it_did_without() -> None:
    row = Row("ours", False, 0.1, 40, 170.0, 180.0, 190.0, 160.0, 0.0123)
    head, line = table([row])
    assert line.split() == ["ours", "170.0", "180.0", "190.0", "1.125", "1.230%", "40"]
    assert len(head) == len(line)
