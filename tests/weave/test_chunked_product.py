"""How rows are cut into chunks that are summed, and what two ranks add over a link of their own."""

import socket
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="chunks are summed through torch.distributed")

import torch

from paceline.weave.backends.chunked_product import Chunking, LinkTransfer
from paceline.weave.backends.message_queue import MessageQueue
from paceline.weave.backends.peer_link import PeerLink
from paceline.weave.rules import WeaveError


def test_even_and_tapered_chunks_by_hand() -> None:
    assert Chunking(4).borders(8) == [2, 4, 6]
    assert Chunking(3, 0.5).borders(7) == [4, 6]
    assert Chunking(4).borders(1) == []


@settings(deadline=None)
@given(st.integers(1, 40), st.floats(0.3, 1.0), st.integers(1, 100))
def test_every_row_is_in_one_chunk_and_no_chunk_is_empty(chunks, taper, rows) -> None:
    borders = [0, *Chunking(chunks, taper).borders(rows), rows]
    assert all(a < b for a, b in pairwise(borders))
    assert len(borders) == min(chunks, rows) + 1


def links(buffer_bytes: int, timeout_s: float = 20.0) -> tuple[PeerLink, PeerLink]:
    """Two ends, with kernel buffers so small that nothing passes in one go."""
    ends = socket.socketpair()
    for end in ends:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, buffer_bytes)
    return PeerLink(ends[0], 1, timeout_s), PeerLink(ends[1], 0, timeout_s)


def summed(link: PeerLink, own: torch.Tensor, borders: list[int]) -> torch.Tensor:
    """One rank's side: its rows come ready chunk by chunk."""
    whole = torch.full_like(own, 7.0)  # poison: a row that is not computed yet must not be read
    transfer = LinkTransfer(link, whole)
    for number, (rows, made) in enumerate(
        zip(whole.tensor_split(borders), own.tensor_split(borders))
    ):
        rows.copy_(made)
        transfer.start(number, rows)
    transfer.finish(())
    return whole


@settings(deadline=None, max_examples=15)
@given(
    st.integers(1, 40),
    st.integers(1, 700),
    st.integers(1, 6),
    st.sampled_from((torch.float32, torch.float64, torch.bfloat16)),
)
def test_two_ranks_add_every_row_over_a_link(rows, columns, chunks, dtype) -> None:
    parts = [torch.randn(rows, columns).to(dtype) for _ in range(2)]
    borders = Chunking(chunks, 0.7).borders(rows)
    ends = links(8192)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(summed, ends, parts, [borders] * 2))
    for end in ends:
        end.close()
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], parts[0] + parts[1])


def exchanged(link: PeerLink, going: list[torch.Tensor], sizes: list[int]) -> list[torch.Tensor]:
    queue, coming = MessageQueue(link), [torch.full((n,), 7.0) for n in sizes]
    numbers = [queue.post(*pair) for pair in zip(going, coming)]
    for number in reversed(numbers):
        queue.wait(number)
    queue.flush()
    return coming


@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 9000)), max_size=6))
def test_mail_arrives_in_order_whatever_its_sizes(sizes) -> None:
    going = [[torch.randn(pair[side]) for pair in sizes] for side in range(2)]
    ends = links(8192)
    with ThreadPoolExecutor(2) as pool:
        wanted = [[len(t) for t in going[1 - side]] for side in range(2)]
        found = list(pool.map(exchanged, ends, going, wanted))
    for end in ends:
        end.close()
    for side in range(2):
        assert all(torch.equal(a, b) for a, b in zip(found[side], going[1 - side], strict=True))


def test_a_peer_that_closes_or_is_silent_ends_the_product_with_an_error_that_names_it() -> None:
    near, far = links(8192, timeout_s=0.05)
    with pytest.raises(WeaveError, match="rank 1 is lost in the middle of a chunk: nothing moved"):
        summed(near, torch.ones(4, 4), [2])
    far.close()
    with pytest.raises(WeaveError, match="rank 1 is lost"):
        summed(near, torch.ones(4, 4), [2])
    near.close()


def test_an_exchange_left_with_an_error_closes_its_link_so_that_none_adds_wrong_rows() -> None:
    near, far = links(8192)

    def exchange() -> None:
        with near:
            near.send(memoryview(b"half a row"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exchange()
    with pytest.raises(WeaveError, match="rank 1 is lost"):
        summed(near, torch.ones(4, 4), [2])
    with pytest.raises(WeaveError, match="rank 0 is lost"):
        summed(far, torch.ones(4, 4), [2])
    far.close()
