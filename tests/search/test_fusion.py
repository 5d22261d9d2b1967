"""dPRO's rules, held against trying both ways."""

from hypothesis import given
from hypothesis import strategies as st

from paceline.search.fusion import Ready, fuse_ops, fuse_tensors, fused_tensors, proposed

CALL_NS, BYTE_NS = 50.0, 1.0


def sync(size_bytes: int) -> float:
    return CALL_NS + BYTE_NS * size_bytes


def last_end_ns(ready: Ready, groups: list[int]) -> float:
    """When all buckets are exchanged, one behind the other; groups count gradients."""
    at, end = 0, 0.0
    for count in groups:
        size = sum(ready.size_bytes[at : at + count])
        end = max(end, ready.at_ns[at + count - 1]) + sync(size)
        at += count
    return end


@given(st.integers(0, 400), st.integers(1, 300), st.integers(1, 300))
def test_two_tensors_are_fused_just_where_one_exchange_ends_earlier(
    later: int, first: int, second: int
) -> None:
    ready = Ready((0, later), (first, second))
    fused = fuse_tensors(sync(first), later, sync(first + second), sync(second))
    assert fused == (last_end_ns(ready, [2]) < last_end_ns(ready, [1, 1]))


@given(st.integers(1, 100), st.integers(1, 100), st.integers(1, 200), st.integers(0, 300))
def test_two_ops_are_fused_just_where_the_step_of_both_ends_earlier(
    earlier: int, later: int, fused: int, exchange: int
) -> None:
    """Both gradients then wait for the fused op, and their exchanges follow one another; where the
    later one's is short, the earlier one's stays hidden behind the later op or not at all."""
    apart = earlier + later
    together = fused + exchange
    assert fuse_ops(exchange, earlier, later, fused) == (together < apart)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 300)), min_size=1, max_size=8))
def test_walking_all_gradients_is_never_slower_than_each_alone(
    steps: list[tuple[int, int]],
) -> None:
    at_ns, now = [], 0
    for wait, _ in steps:
        now += wait
        at_ns.append(now)
    ready = Ready(tuple(at_ns), tuple(size for _, size in steps))
    sizes = fused_tensors(ready, sync)
    assert sum(sizes) == sum(ready.size_bytes)
    groups, rest = [], list(ready.size_bytes)
    for size in sizes:
        count = 0
        while size > 0:
            size -= rest.pop(0)
            count += 1
        groups.append(count)
    assert last_end_ns(ready, groups) <= last_end_ns(ready, [1] * len(steps))


def test_buckets_are_proposed_with_a_first_of_its_own() -> None:
    asked = {(each.size_bytes, each.first_size_bytes) for each in proposed([4, 100, 60])}
    assert {(100, 4), (60, 4), (164, 0)} <= asked
