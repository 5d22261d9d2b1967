"""Plain steps beside stretches of recorded ones."""

from collections.abc import Sequence

from paceline.record.sidecar import Cost, Counts, Mode, Sidecar, Step
from paceline.trace.plain import run_ns, wall_ns
from paceline.trace.turns import Turn, beside_recorded, turns_of

MODES = {"p": Mode.PLAIN, "d": Mode.DETAIL, "s": Mode.SETTLE, "r": Mode.RECORDED}


def told(modes: str, lengths: Sequence[int], spared_ns: int = 0) -> Sidecar:
    """Steps of these modes and lengths, of which the thread ran half."""
    steps = [
        Step(index=i, begin_ns=0, end_ns=ns, mode=MODES[mode], counts=Counts(run_ns=ns // 2))
        for i, (mode, ns) in enumerate(zip(modes, lengths, strict=True), start=7)
    ]
    return Sidecar(records=[*steps, Cost(op_ns=1.0, refault_ns=spared_ns)], truncated=False)


def test_each_stretch_has_the_plain_steps_that_touch_it() -> None:
    found = turns_of(told("pdsrrprrpp", [1] * 10))
    assert found == [Turn((10, 11), (12,)), Turn((13, 14), (12, 15, 16))]


def test_steps_recorded_together_have_no_neighbours() -> None:
    assert turns_of(told("ppdsrrrdspp", [1] * 11)) == []
    assert beside_recorded([told("ppdsrrrdspp", [1] * 11)], wall_ns) is None


def test_a_burst_over_one_stretch_and_its_neighbours_does_not_count() -> None:
    quiet = [90, 10, 10, 100, 100, 90, 100, 100, 90, 100, 100, 90]
    burst = [*quiet[:9], 500, 500, 450]
    for lengths in (quiet, burst):
        ranks = [told("pdsrrprrprrp", lengths), told("pdsrrprrprrp", lengths)]
        assert beside_recorded(ranks, wall_ns) == 90
        assert beside_recorded(ranks, run_ns) == 45


def test_page_faults_that_plain_steps_were_spared_too_are_put_back() -> None:
    lengths = [90, 10, 10, 100, 100, 90, 100, 100, 90]
    ranks = [told("pdsrrprrp", lengths, spared_ns) for spared_ns in (6, 0)]
    assert beside_recorded(ranks, wall_ns) == 93


def test_what_one_rank_did_not_count_is_not_told_of_all() -> None:
    lengths = [90, 10, 10, 100, 100, 90, 100, 100, 90]
    uncounted = Sidecar(
        records=[Step(index=10, begin_ns=0, end_ns=100, mode=Mode.RECORDED)], truncated=False
    )
    assert beside_recorded([told("pdsrrprrp", lengths), uncounted], run_ns) is None
