"""What all programs of this machine ran: columns of `/proc/stat` that are not idle nor stolen."""

from typing import Final

_RAN: Final = (1, 2, 3, 6, 7)  # user, nice, system, interrupts of both kinds; guests are in user
_SECOND_NS: Final = 1_000_000_000


def busy_ns(text: str, ticks_per_second: int) -> int | None:
    """Nanoseconds since the machine began, over all cores, of the file's text; None where it does
    not tell. The kernel counts in ticks of a hundredth of a second."""
    cells = text.partition("\n")[0].split()
    if len(cells) <= _RAN[-1] or cells[0] != "cpu":
        return None
    return sum(int(cells[at]) for at in _RAN) * _SECOND_NS // ticks_per_second
