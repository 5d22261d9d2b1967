"""Results for a terminal: one table a file, each from a value to something that rich prints."""

from paceline.report.text.bottleneck import bottleneck_lines, bottleneck_table
from paceline.report.text.breakdown import breakdown_table
from paceline.report.text.difference import show_difference
from paceline.report.text.draws import draws_table
from paceline.report.text.facts import facts_table
from paceline.report.text.found import found_lines, pareto_table
from paceline.report.text.hardware import hardware_tables
from paceline.report.text.headline import headline
from paceline.report.text.history import entries_table, errors_table
from paceline.report.text.hybrid import hybrid_parts
from paceline.report.text.lanes import lanes_table
from paceline.report.text.learn import (
    arm_lines,
    forecast_notes,
    forecast_table,
    noise_line,
    partition_lines,
)
from paceline.report.text.memory import fit_line, memory_table, peak_line, ranks_table
from paceline.report.text.noise import show_noise
from paceline.report.text.overview import show_overview
from paceline.report.text.path import path_tables
from paceline.report.text.prediction import prediction_lines, prediction_table
from paceline.report.text.run import collectives_table, show_run
from paceline.report.text.sent import sent_lines
from paceline.report.text.step import show_summary
from paceline.report.text.strategies import StrategyRow, strategies_table
from paceline.report.text.tuned import tuned_lines
from paceline.report.text.weave import schedules_table

__all__ = [
    "StrategyRow",
    "arm_lines",
    "bottleneck_lines",
    "bottleneck_table",
    "breakdown_table",
    "collectives_table",
    "draws_table",
    "entries_table",
    "errors_table",
    "facts_table",
    "fit_line",
    "forecast_notes",
    "forecast_table",
    "found_lines",
    "hardware_tables",
    "headline",
    "hybrid_parts",
    "lanes_table",
    "memory_table",
    "noise_line",
    "pareto_table",
    "partition_lines",
    "path_tables",
    "peak_line",
    "prediction_lines",
    "prediction_table",
    "ranks_table",
    "schedules_table",
    "sent_lines",
    "show_difference",
    "show_noise",
    "show_overview",
    "show_run",
    "show_summary",
    "strategies_table",
    "tuned_lines",
]
