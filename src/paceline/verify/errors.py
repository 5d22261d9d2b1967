"""What can go wrong in `verify`."""

from paceline.errors import PacelineError


class VerifyError(PacelineError):
    """A prediction cannot be compared with a measurement."""
