"""Why a machine cannot be measured, or a calibration not be read."""

from paceline.errors import PacelineError


class MeasureError(PacelineError):
    """A measurement ended without a figure, or a file is no calibration."""
