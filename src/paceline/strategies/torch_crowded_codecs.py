"""Time every known codec while each core of this machine runs it at the same time.

So it is where workers share a machine: what passes through memory then takes longer than alone. The
workers run in a lab, which the caller gives (`paceline.lab.said`), and begin every run together.
"""

import sys

import msgspec
import torch.distributed as dist

from paceline.cluster import Cluster, Device, Host, Link
from paceline.launch.torch_parting import part
from paceline.machine import usable_cores
from paceline.measure import CodecTimes, InLab, MeasureError
from paceline.strategies.torch_codec_times import codec_times

_ANSWER = "codecs: "
_LINK = Link.both_ways(125e6)  # nothing but a barrier goes over it


def crowded_codec_times(in_lab: InLab, repeats: int) -> tuple[CodecTimes, ...]:
    """As `codec_times` tells them, of one of as many workers as there are cores."""
    hosts = tuple(Host(f"h{number}", Device("core")) for number in range(usable_cores()))
    if len(hosts) < 2:
        return codec_times(repeats)
    module = "paceline.strategies.torch_crowded_codecs"
    said = in_lab(Cluster(hosts, _LINK), [sys.executable, "-m", module, str(repeats)])
    lines = [line for line in said.splitlines() if line.startswith(_ANSWER)]
    if not lines:
        raise MeasureError(
            f"the workers that time codecs ended without a figure; they said: {said.strip()[-300:]}"
        )
    return msgspec.json.decode(lines[-1][len(_ANSWER) :], type=tuple[CodecTimes, ...])


def _as_worker(repeats: int) -> None:
    dist.init_process_group("gloo")
    found = codec_times(repeats, dist.barrier)
    if dist.get_rank() == 0:
        print(_ANSWER + msgspec.json.encode(found).decode(), flush=True)
    dist.barrier()
    part()


if __name__ == "__main__":
    _as_worker(int(sys.argv[1]))
