"""The loop: record a job, search for a plan, try it live, keep it if it helps.

tuned = tune(TuneRequest(("torchrun", "--nproc-per-node", "2", "train.py"), Path("runs/t")), env)
"""

from paceline.callable_room import callable_room
from paceline.tune.errors import TuneError
from paceline.tune.kept import tuned_data
from paceline.tune.recorded import Recorded
from paceline.tune.request import TuneRequest
from paceline.tune.tuned import Expected, Trial, Tuned
from paceline.tune.tuning import tune
from paceline.tune.where import Where, as_recorded

__all__ = [
    "Expected",
    "Recorded",
    "Trial",
    "TuneError",
    "TuneRequest",
    "Tuned",
    "Where",
    "as_recorded",
    "tune",
    "tuned_data",
]

callable_room(__name__)
