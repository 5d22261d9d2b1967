"""Why a model cannot be served, or a request not be answered."""

from paceline.errors import PacelineError


class ServeError(PacelineError):
    """A model cannot be planned or served as asked."""


class BadRequest(PacelineError):
    """A request that can never be answered as it is."""


class TooLarge(BadRequest):
    """A request of more samples or bytes than are taken at once."""


class Overloaded(PacelineError):
    """No room for a request now; later there may be."""


class Failed(PacelineError):
    """A request was taken and cannot be answered."""
