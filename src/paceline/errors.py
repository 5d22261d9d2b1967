"""The errors a user can act on. Each message says what was given, what is allowed, what to do."""


class PacelineError(Exception):
    """Base of every error that Paceline raises on purpose; the command line exits with 1."""


class GraphError(PacelineError):
    """A graph breaks the law of graphs: a cycle, a negative duration, a missing member."""


class FileError(PacelineError):
    """A file is missing, truncated, foreign, from the future, or cannot be written."""


class ReplayError(PacelineError):
    """A graph cannot be replayed: unpriced durations, ops that wait for each other for ever."""


class TraceError(PacelineError):
    """A recording cannot be read, or does not belong to the others."""
