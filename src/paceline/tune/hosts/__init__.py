"""The loop on several hosts that share no folder: the same command on each.

One host leads: it searches and judges, and has every run made on all hosts at once. The others
follow: they start their own part of the job, and what its ranks write comes to the leader as it is
written. Hosts meet at an address of the job's own rendezvous.
"""

from paceline.tune.hosts.follow import Followed, follow
from paceline.tune.hosts.lead import Followers, gathered
from paceline.tune.hosts.meeting import Meeting, meeting_of

__all__ = ["Followed", "Followers", "Meeting", "follow", "gathered", "meeting_of"]
