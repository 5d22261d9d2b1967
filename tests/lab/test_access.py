"""Who may build a lab, and what is said to those who may not."""

import pytest

from paceline.lab import LabError
from paceline.lab.access import Access, explain, require_tools
from paceline.lab.commands import Script


def test_a_missing_tool_is_named_with_its_package() -> None:
    with pytest.raises(LabError, match=r"no-such-tool.*apt-get install util-linux"):
        require_tools(["no-such-tool"])


def test_root_runs_commands_as_they_are_and_others_through_their_namespace_holder() -> None:
    assert Access().command(["ip", "link"]) == ["ip", "link"]
    inside = Access().command(["ip", "link"], "paceline.a.h0")
    assert inside == ["ip", "netns", "exec", "paceline.a.h0", "ip", "link"]
    entered = Access(holder=42).command(["ip", "link"])
    assert entered[:3] == ["nsenter", "-t", "42"]
    assert entered[-2:] == ["ip", "link"]


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("sh: 3: echo: echo: I/O error", "tcp_allowed_congestion_control"),
        ("Error: Specified qdisc kind is unknown.", "HTB"),
        ("RTNETLINK answers: Operation not permitted", "CAP_NET_ADMIN"),
    ],
)
def test_what_the_kernel_refuses_is_explained(said: str, hint: str) -> None:
    text = explain(Script("", "paceline.a.h0"), said)
    assert hint in text
    assert "paceline.a.h0" in text


def test_an_unknown_refusal_is_passed_on() -> None:
    assert "something odd" in explain(Script(""), "something odd\n")
