"""Why a prediction cannot be made."""

from paceline.errors import PacelineError


class PredictError(PacelineError):
    """A prediction cannot be made of what was given."""
