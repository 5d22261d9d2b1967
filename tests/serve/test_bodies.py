"""What clients send and get: JSON, .npy and .npz; what is wrong is named."""

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from paceline.serve import bodies
from paceline.serve.bodies import Media
from paceline.serve.errors import BadRequest, TooLarge
from paceline.serve.frames import LENGTHS, Message, packed, unpacked
from paceline.serve.metrics import Gauges, Metrics, text
from paceline.serve.signature import Signature, Tensor

ROWS = Signature((Tensor("input", "float32", (2,)),), (Tensor("output", "float32", (2,)),))
WORDS = Signature((Tensor("ids", "int64", (3,)), Tensor("mask", "int64", (3,))), ())


def npy(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(array))
    return file.getvalue()


def test_json_is_read_in_the_models_type() -> None:
    found = bodies.read(b'{"inputs": [[1, 2], [3, 4.5]]}', Media.JSON, ROWS)
    assert found["input"].dtype == np.float32
    assert found["input"].tolist() == [[1.0, 2.0], [3.0, 4.5]]
    named = bodies.read(b'{"inputs": {"ids": [[1,2,3]], "mask": [[1,1,0]]}}', Media.JSON, WORDS)
    assert WORDS.samples(named, 4) == 1


def test_npy_and_npz_are_read_and_written() -> None:
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert bodies.read(bodies.write({"o": array}, Media.NPY), Media.NPY, ROWS)[
        "input"
    ].tolist() == (array.tolist())
    packed_arrays = bodies.write({"input": array}, Media.NPZ)
    assert bodies.read(packed_arrays, Media.NPZ, ROWS)["input"].tolist() == array.tolist()
    assert json.loads(bodies.write({"o": array}, Media.JSON))["outputs"]["o"] == array.tolist()
    assert json.loads(bodies.line(1, 4, {"o": array}))["first"] == 1


@pytest.mark.parametrize(
    ("body", "media", "said"),
    [
        (b"{", Media.JSON, "is no JSON"),
        (b"[1]", Media.JSON, 'no "inputs"'),
        (b'{"inputs": [[1, 2], [3]]}', Media.JSON, "unequal length"),
        (b'{"inputs": [["a", "b"]]}', Media.JSON, "other things than numbers"),
        (b'{"inputs": {"wrong": [[1, 2]]}}', Media.JSON, "no input is called 'wrong'"),
        (b"nothing", Media.NPY, "is no .npy file"),
        (b"", Media.NPY, "is no .npy file"),
        (b"nothing", Media.NPZ, "is no .npz file"),
        (npy(np.array([object()])), Media.NPY, "is no .npy file"),
        (npy(np.array([["x", "y"]])), Media.NPY, "is of <U1"),
    ],
)
def test_a_body_that_cannot_be_read_is_named(body: bytes, media: Media, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        bodies.read(body, media, ROWS)


def test_fractions_are_never_cut_to_whole_numbers() -> None:
    with pytest.raises(BadRequest, match="is of float64"):
        bodies.read(b'{"inputs": {"ids": [[1.5, 2, 3]], "mask": [[1,1,0]]}}', Media.JSON, WORDS)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({}, "are missing or unknown"),
        ({"input": np.zeros((1, 3))}, r"has shape \[1, 3\]; allowed: 'input' of float32 \[samples"),
        ({"input": np.zeros(2)}, r"has shape \[2\]"),
        ({"input": np.zeros((0, 2))}, "no samples"),
    ],
)
def test_a_request_of_the_wrong_shape_is_named(arrays: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        ROWS.samples(arrays, 4)


def test_a_request_of_too_many_samples_is_named() -> None:
    with pytest.raises(TooLarge, match="5 samples; at most 4"):
        ROWS.samples({"input": np.zeros((5, 2))}, 4)
    with pytest.raises(BadRequest, match="unequal numbers of samples"):
        WORDS.samples({"ids": np.zeros((1, 3)), "mask": np.zeros((2, 3))}, 4)


def test_the_content_type_decides_and_the_answer_is_in_kind_unless_asked_otherwise() -> None:
    assert bodies.media_of("") is bodies.media_of("application/json; charset=utf-8") is Media.JSON
    assert bodies.media_of("application/x-npy") is Media.NPY
    assert bodies.accepted("*/*", Media.NPY) is Media.NPY
    assert bodies.accepted("application/x-ndjson", Media.JSON) is Media.LINES
    with pytest.raises(BadRequest, match="allowed: application/json"):
        bodies.media_of("text/html")


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=5),
        arrays.arrays(
            st.sampled_from(["<f4", "<i8", "|b1", "<f2"]), arrays.array_shapes(min_side=0)
        ),
        max_size=3,
    )
)
def test_a_message_arrives_as_it_was_sent(given: dict[str, np.ndarray]) -> None:
    sent = b"".join(bytes(chunk) for chunk in packed(Message("run", {"batch": 3}, given)))
    header, body = LENGTHS.unpack(sent[: LENGTHS.size])
    rest = bytearray(sent[LENGTHS.size :])
    assert len(rest) == header + body
    found = unpacked(bytes(rest[:header]), rest[header:])
    assert (found.kind, found.facts, list(found.arrays)) == ("run", {"batch": 3}, list(given))
    for name, array in given.items():
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].shape == array.shape
        assert found.arrays[name].tobytes() == array.tobytes()


def test_metrics_are_text_that_prometheus_reads() -> None:
    metrics = Metrics()
    metrics.requests[200] += 2
    for seconds in (0.0015, 0.3, 1000.0):
        metrics.latency_s.add(seconds)
    lines = text(metrics, Gauges(3, 1, 2, 8, 4.5)).splitlines()
    assert 'paceline_requests_total{code="200"} 2' in lines
    assert 'paceline_request_seconds_bucket{le="0.001"} 0' in lines
    assert 'paceline_request_seconds_bucket{le="0.002"} 1' in lines
    assert 'paceline_request_seconds_bucket{le="50"} 2' in lines
    assert 'paceline_request_seconds_bucket{le="+Inf"} 3' in lines
    assert "paceline_waiting_samples 3" in lines
    types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
