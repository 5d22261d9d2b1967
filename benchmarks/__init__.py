"""Figures, one file each. What they record stays out of the user's history."""

import os

os.environ.setdefault("PACELINE_HISTORY", "off")
