"""Why a pipeline cannot be planned."""

from paceline.errors import PacelineError


class PlanError(PacelineError):
    """The profile, the devices or the batch leave no plan."""
