"""Plans replayed by several workers: `opened("processes", judge)` gives what replays them.

Where they run is one `concurrent.futures.Executor`, of this machine's processes, of Dask or of Ray:
one file each. All else stands here once: plans go out in parts, a part whose worker died is given
out again, and a plan that kills its workers is refused.
"""

from paceline.search.spread.parts import opened

__all__ = ["opened"]
