"""What a trial's processes are told, in one environment variable."""

import msgspec

from paceline.trial.blocks import TrialBlock

VARIABLE = "PACELINE_TRIAL"


class TrialSettings(msgspec.Struct, frozen=True):
    """Where each rank writes, and what runs when. Without blocks steps are noted, no more."""

    folder: str
    plan: list[str] = []
    blocks: list[TrialBlock] = []
    limit_s: float = 3600.0  # behind it no further round begins


def environment_of(settings: TrialSettings) -> dict[str, str]:
    return {VARIABLE: msgspec.json.encode(settings).decode()}
