"""The server's face: what it answers to which path. starlette is loaded here alone."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from paceline.errors import PacelineError
from paceline.serve import bodies
from paceline.serve.bodies import Media
from paceline.serve.dispatcher import Dispatcher
from paceline.serve.errors import BadRequest, Failed, Overloaded, TooLarge
from paceline.serve.fleet import Member
from paceline.serve.metrics import CONTENT_TYPE, text
from paceline.serve.requests import OutputSlice, Request, whole
from paceline.serve.signature import Signature

STATUS: Final[Mapping[type[PacelineError], HTTPStatus]] = {
    TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    BadRequest: HTTPStatus.BAD_REQUEST,
    Overloaded: HTTPStatus.SERVICE_UNAVAILABLE,
    Failed: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""Of an error, by the first class that it is one of."""


@dataclass(frozen=True)
class Served:
    """What the paths speak about."""

    dispatcher: Dispatcher
    signature: Signature
    largest: int  # samples of one request


def app(served: Served) -> Starlette:
    async def predict(asked: Asked) -> Response:
        return await _predicted(served, asked)

    async def health(asked: Asked) -> Response:
        return PlainTextResponse("alive\n")

    async def ready(asked: Asked) -> Response:
        up = served.dispatcher.ready
        status = HTTPStatus.OK if up else HTTPStatus.SERVICE_UNAVAILABLE
        return PlainTextResponse("ready\n" if up else "no instance is ready\n", status)

    async def metrics(asked: Asked) -> Response:
        told = text(served.dispatcher.metrics, served.dispatcher.gauges)
        return Response(told, media_type=CONTENT_TYPE)

    async def about(asked: Asked) -> Response:
        return JSONResponse(_about(served))

    return Starlette(
        routes=[
            Route("/", about),
            Route("/predict", predict, methods=["POST"]),
            Route("/health", health),
            Route("/ready", ready),
            Route("/metrics", metrics),
        ]
    )


async def _predicted(served: Served, asked: Asked) -> Response:
    """One request from its bytes to its bytes; every answer is counted."""
    begin = time.perf_counter()
    metrics = served.dispatcher.metrics

    def counted(response: Response) -> Response:
        metrics.requests[response.status_code] += 1
        metrics.latency_s.add(time.perf_counter() - begin)
        return response

    try:
        given = bodies.media_of(asked.headers.get("content-type", ""))
        wanted = bodies.accepted(asked.headers.get("accept", ""), given)
        limit = bodies.limit_bytes(served.signature.inputs, served.largest)
        inputs = bodies.read(await _body(asked, limit), given, served.signature)
        samples = served.signature.samples(inputs, served.largest)
        request = served.dispatcher.take(inputs, samples)
    except PacelineError as error:
        return counted(refusal(error))
    if wanted is Media.LINES:
        lines = _lines(served, request)
        return counted(StreamingResponse(lines, media_type=wanted.value))
    try:
        outputs = whole([part async for part in request.parts()])
        return counted(Response(bodies.write(outputs, wanted), media_type=wanted.value))
    except PacelineError as error:
        return counted(refusal(error))
    finally:
        served.dispatcher.done(request)


async def _lines(served: Served, request: Request) -> AsyncIterator[bytes]:
    """A line for each part as it is ready; an error in the middle is the last line."""
    try:
        async for part in request.parts():
            yield _line(part)
    except PacelineError as error:
        yield bodies.failure_line(str(error))
    finally:
        served.dispatcher.done(request)


def _line(part: OutputSlice) -> bytes:
    return bodies.line(part.first, part.end, part.outputs)


async def _body(asked: Asked, limit: int) -> bytes:
    """Refused before it is read where it is too long."""
    told = asked.headers.get("content-length", "")
    chunks, size = [], int(told) if told.isdigit() else 0
    _require_size(size, limit)
    size = 0
    with suppress(ClientDisconnect):
        async for chunk in asked.stream():
            size += len(chunk)
            _require_size(size, limit)
            chunks.append(chunk)
    return b"".join(chunks)


def _require_size(size: int, limit: int) -> None:
    if size > limit:
        raise TooLarge(f"a body of {size:,} bytes; at most {limit:,} are read")


def refusal(error: PacelineError) -> Response:
    """The reason as JSON, with the status that fits it."""
    status = next(code for kind, code in STATUS.items() if isinstance(error, kind))
    headers = {"Retry-After": "1"} if isinstance(error, Overloaded) else None
    return JSONResponse({"error": str(error)}, status, headers)


def _about(served: Served) -> dict[str, Any]:
    plan = served.dispatcher.plan
    return {
        "inputs": [vars(tensor) for tensor in served.signature.inputs],
        "outputs": [vars(tensor) for tensor in served.signature.outputs],
        "largest_request": served.largest,
        "batch": plan.batch,
        "instances": [_instance(member) for member in served.dispatcher.fleet.members],
        "predicted_ms": round(plan.latency_ns / 1e6, 3),
    }


def _instance(member: Member) -> dict[str, Any]:
    instance = member.instance
    return {**vars(member.share), "pid": instance.pid, "processors": list(instance.processors)}
