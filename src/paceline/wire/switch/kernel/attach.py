"""Run inside a node's network namespace: loads the switch of each of its ports.

    python -m paceline.wire.switch.kernel.attach < ports.json

`ports.json` is a list of {device, name, rule, spray}; devices need a clsact discipline.
"""

import json
import sys

from paceline.errors import PacelineError
from paceline.wire.switch.kernel.port import SwitchPort, attach_switch
from paceline.wire.switch.rule import Rule


def from_json(text: str) -> list[SwitchPort]:
    rows = json.loads(text)
    for row in rows:
        limits = {"drop_bytes": tuple(row["rule"]["drop_bytes"])}
        row["rule"] = Rule(**{**row["rule"], **limits})
    return [SwitchPort(**row) for row in rows]


if __name__ == "__main__":
    try:
        for one in from_json(sys.stdin.read()):
            attach_switch(one)
    except PacelineError as error:
        sys.exit(str(error))
