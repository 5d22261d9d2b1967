"""What measuring a device itself brought to its forecasts."""

from collections.abc import Iterator, Sequence

from paceline.cost.forecast.refining import Refined


def refined_lines(told: Sequence[Refined]) -> Iterator[str]:
    """One line per kind of operators."""
    for row in told:
        yield (
            f"{row.key:26} {row.rows:5,} rows on {row.device}; forecasts were off by "
            f"{row.before:.0%}, refined {row.after:.0%} (each row by the others)"
        )
