"""Which plan: searchers over all strategies' settings, judged by replay.

found = search(graph, cluster, Question(), Goal(allow=Effect.LOSSY))
found.best.plan, found.best.step_ns, found.best.reasons
"""

from paceline.callable_room import callable_room
from paceline.search.errors import SearchError
from paceline.search.found import Candidate, Ended, Found
from paceline.search.goal import Aim, Goal
from paceline.search.learning import Batches, Learning, Progress, Reached
from paceline.search.planned import planned, repriced
from paceline.search.searching import SEARCHERS, SearchPlace, search
from paceline.search.trials import Stopped, Trials

__all__ = [
    "SEARCHERS",
    "Aim",
    "Batches",
    "Candidate",
    "Ended",
    "Found",
    "Goal",
    "Learning",
    "Progress",
    "Reached",
    "SearchError",
    "SearchPlace",
    "Stopped",
    "Trials",
    "planned",
    "repriced",
    "search",
]

callable_room(__name__)
