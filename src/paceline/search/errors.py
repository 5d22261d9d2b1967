"""Why a search cannot be made."""

from paceline.errors import PacelineError


class SearchError(PacelineError):
    """Nothing can be searched as asked."""
