"""A serving plan in a terminal: what each choice takes, and whether that can be trusted."""

from io import StringIO

from rich.console import Console

from paceline.report.text.serving import profile_lines, serving_table
from paceline.serve import (
    Fingerprint,
    InstanceShare,
    Point,
    ServingChoice,
    ServingPlan,
    ServingProfile,
)

PLAN = ServingChoice(
    "plan", ServingPlan(8, (InstanceShare(1, 4), InstanceShare(1, 4)), 2e6), (2.0e6, 2.2e6, 2.4e6)
)
FAT = ServingChoice(
    "one instance on all cores", ServingPlan(8, (InstanceShare(2, 8),), 3e6), (4.4e6,)
)


def test_each_choice_stands_beside_the_plan_predicted_and_measured() -> None:
    console = Console(file=StringIO(), width=120)
    console.print(serving_table((PLAN, FAT), 8))
    shown = console.file.getvalue()
    assert "a batch of 8" in shown
    (plan,) = [line.split("  ") for line in shown.splitlines() if line.startswith("plan")]
    assert "2 x 1 thread, 4 each" in [cell.strip() for cell in plan]
    (fat,) = [line for line in shown.splitlines() if line.startswith("one instance")]
    assert fat.split()[-5:] == ["ms", "1.50", "4.40", "ms", "2.00"]


def test_points_that_spread_say_that_the_machine_was_busy() -> None:
    def told(high_ns: float) -> str:
        points = (Point(1, 1, 10.0, 9.0, high_ns, 3), Point(1, 1, 15.0, 15.0, 15.0, 3, True))
        return "\n".join(
            profile_lines(ServingProfile(Fingerprint("", "", ""), 2, 1, points, "today"))
        )

    assert "the machine was busy" in told(30.0)
    assert "the machine was busy" not in told(11.0)
    assert "take 1.50 to 1.50 times as long" in told(11.0)
