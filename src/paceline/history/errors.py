"""Why a history cannot be read or written."""

from paceline.errors import PacelineError


class HistoryError(PacelineError):
    """The history's file is locked, damaged, of a newer version, or cannot be written."""
