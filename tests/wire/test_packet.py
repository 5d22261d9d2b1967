"""Messages are read only where they are whole, of this job, and made with its key."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_ranks import JOB, packet, parsed

from paceline.wire import JobKey, WireError
from paceline.wire.settings import core

pytestmark = pytest.mark.needs("native")

FINE, TRUNCATED, MALFORMED, OTHER_JOB, FORGED = range(5)


def test_the_checksum_is_siphash() -> None:
    key, message = np.arange(16, dtype=np.uint8), np.arange(15, dtype=np.uint8)
    assert core().wire_digest(key, message) == 0xA129CA6149BE45E5  # the paper's own example


def test_a_message_is_read_back() -> None:
    wanted = {
        "kind": 1, "importance": 7, "source": 3, "job": JOB.number, "step": 2**32 - 1,
        "tensor": 65_535, "layer": 9, "offset": 1432, "length": 9999, "sequence": 12,
        "phase": 4, "round": 255,
    }  # fmt: skip
    assert parsed(packet(b"values", **wanted)) == (FINE, wanted)


@given(st.binary(max_size=200))
def test_noise_is_never_taken_for_a_message(noise: bytes) -> None:
    assert parsed(noise)[0] != FINE


@given(st.binary(max_size=64), st.data())
def test_a_message_with_one_bit_changed_is_thrown_away(payload: bytes, data: st.DataObject) -> None:
    message = bytearray(packet(payload, source=1, offset=8))
    bit = data.draw(st.integers(0, 8 * len(message) - 1))
    message[bit // 8] ^= 1 << (bit % 8)
    assert parsed(bytes(message))[0] != FINE


@given(st.binary(min_size=1, max_size=64), st.data())
def test_a_message_that_was_cut_is_told(payload: bytes, data: st.DataObject) -> None:
    message = packet(payload)
    assert parsed(message[: data.draw(st.integers(0, len(message) - 1))])[0] == TRUNCATED
    assert parsed(message + b"!")[0] == MALFORMED


def test_who_has_another_key_or_job_is_told_apart() -> None:
    assert parsed(packet(of=JobKey(JOB.number, bytes(16))))[0] == FORGED
    assert parsed(packet(of=JobKey(JOB.number + 1, JOB.secret)))[0] == OTHER_JOB


def test_the_headers_of_two_new_jobs_differ() -> None:
    assert JobKey.new() != JobKey.new()
    assert "secret" not in repr(JobKey.new())
    with pytest.raises(WireError, match="16 bytes"):
        JobKey(1, b"short")
