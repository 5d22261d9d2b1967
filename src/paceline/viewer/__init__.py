"""The page of a run, served to a browser on this machine, so that it can ask for what a file cannot
hold: any strategy, any cluster, searches, other runs.

`Viewer` holds what is open and answers; `serving` is the HTTP server around it, for loopback alone.
"""

from paceline.viewer.errors import ViewError
from paceline.viewer.guard import Guard
from paceline.viewer.searches import Searches
from paceline.viewer.server import Server, serving
from paceline.viewer.viewing import Viewed, Viewer

__all__ = ["Guard", "Searches", "Server", "ViewError", "Viewed", "Viewer", "serving"]
