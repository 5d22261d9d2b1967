"""What the machine tells about itself: who had a core, what was stolen, how fast it is just then.

Small readers of what the kernel counts, and a pulse that measures the rest. A recorded job imports
this room: it needs nothing but Python.
"""

from paceline.machine.boot import boot_here
from paceline.machine.clocks import Clocks, Moved, clocks_after, clocks_now, moved
from paceline.machine.cores import (
    Cores,
    cores_here,
    in_words,
    processor,
    this_machine,
    usable_cores,
)
from paceline.machine.memory import free_bytes, held_bytes
from paceline.machine.pulse import (
    Brought,
    Pulse,
    PulseMoved,
    PulseTaker,
    at_pulse,
    moved_between,
    take_pulse,
    typical_pulse,
)
from paceline.machine.quota import Quota, quota_here
from paceline.machine.rhythm import Rhythm
from paceline.machine.steadiness import Steadiness, Trust, observe, steadiness
from paceline.machine.stolen import stolen_here
from paceline.machine.strain import Strain, StrainReader
from paceline.machine.threads import (
    Raw,
    ThreadClock,
    ThreadTime,
    thread_clock,
    thread_names,
    time_of,
)

__all__ = [
    "Brought",
    "Clocks",
    "Cores",
    "Moved",
    "Pulse",
    "PulseMoved",
    "PulseTaker",
    "Quota",
    "Raw",
    "Rhythm",
    "Steadiness",
    "Strain",
    "StrainReader",
    "ThreadClock",
    "ThreadTime",
    "Trust",
    "at_pulse",
    "boot_here",
    "clocks_after",
    "clocks_now",
    "cores_here",
    "free_bytes",
    "held_bytes",
    "in_words",
    "moved",
    "moved_between",
    "observe",
    "processor",
    "quota_here",
    "steadiness",
    "stolen_here",
    "take_pulse",
    "this_machine",
    "thread_clock",
    "thread_names",
    "time_of",
    "typical_pulse",
    "usable_cores",
]
