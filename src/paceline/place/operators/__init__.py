"""Which operator on which device: one problem, three questions, every answer with a bound."""

from paceline.place.operators.answer import Answer, Goal, Outcome
from paceline.place.operators.baselines import Baseline, baselines, expert
from paceline.place.operators.contiguous import Replication, place_contiguous
from paceline.place.operators.files import problem_json, read_problem, read_split, split_json
from paceline.place.operators.from_graph import Drawn, Target, drawn_from, problem_from
from paceline.place.operators.ideals import Limits
from paceline.place.operators.latency import place_latency
from paceline.place.operators.mixed_integer import Solver
from paceline.place.operators.noncontiguous import place_noncontiguous
from paceline.place.operators.picture import device_names, svg
from paceline.place.operators.problem import PlacementError, Problem, check
from paceline.place.operators.split import PlacedNodes, Split, confirm

__all__ = [
    "Answer",
    "Baseline",
    "Drawn",
    "Goal",
    "Limits",
    "Outcome",
    "PlacedNodes",
    "PlacementError",
    "Problem",
    "Replication",
    "Solver",
    "Split",
    "Target",
    "baselines",
    "check",
    "confirm",
    "device_names",
    "drawn_from",
    "expert",
    "place_contiguous",
    "place_latency",
    "place_noncontiguous",
    "problem_from",
    "problem_json",
    "read_problem",
    "read_split",
    "split_json",
    "svg",
]
