"""The table of strategies: whole names, and families by one name."""

from io import StringIO

from rich.console import Console

from paceline.report.text.strategies import StrategyRow, strategies_table

FAMILIES = {"codecs": frozenset({"bf16", "fp16", "topk"})}


def shown(*conflicts: str, name: str = "a_strategy_with_a_long_name") -> str:
    row = StrategyRow(name, "what it is", "exact", True, conflicts, None)
    console = Console(width=80, record=True, file=StringIO())
    console.print(strategies_table([row], "", FAMILIES))
    return console.export_text()


def test_a_name_is_shown_whole_on_a_narrow_terminal() -> None:
    assert "a_strategy_with_a_long_name" in shown()


def test_a_family_that_is_excluded_as_a_whole_has_one_name() -> None:
    assert "codecs" in shown("bf16", "fp16", "topk")
    assert "topk" not in shown("bf16", "fp16", "topk")


def test_a_codec_excludes_the_others_of_its_family() -> None:
    assert "codecs" in shown("bf16", "fp16", name="topk")


def test_a_part_of_a_family_is_named_one_by_one() -> None:
    text = shown("bf16", "zero1")
    assert "codecs" not in text
    assert "bf16" in text
    assert "zero1" in text
