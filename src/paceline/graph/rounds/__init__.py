"""Jobs whose ranks exchange weights now and then in place of gradients in every step.

    changed = with_rounds(graph, Rounds(period=8, rounds=(Round("average", step=7),)))

A `Round` says what happens once in a period, `with_rounds` makes it of a graph: the gradients stay
where they are, the typical step stands once for every step of a few periods, and the rounds are
put into them.
"""

from paceline.graph.rounds.fragments import fragments_of
from paceline.graph.rounds.periods import PERIODS, in_periods
from paceline.graph.rounds.put import with_rounds
from paceline.graph.rounds.round import Round, Rounds

__all__ = ["PERIODS", "Round", "Rounds", "fragments_of", "in_periods", "with_rounds"]
