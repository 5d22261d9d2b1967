"""Work on several workers: `opened("processes", work)` gives what answers items by it.

Where they run is one `concurrent.futures.Executor`, of this machine's processes, of Dask or of Ray:
one file each. All else stands here once: items go out in parts, a part whose worker died is given
out again, and an item that kills its workers is answered by `Died`.
"""

from paceline.spread.errors import SpreadError
from paceline.spread.parts import Answered, Answers, Died, Parts, opened
from paceline.spread.pool import OneByOne

__all__ = ["Answered", "Answers", "Died", "OneByOne", "Parts", "SpreadError", "opened"]
