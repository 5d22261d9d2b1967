"""`serve`: the planned instances behind HTTP, until the process is asked to end."""

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from paceline.serve.dispatcher import Dispatcher, Rules
from paceline.serve.errors import ServeError
from paceline.serve.prepared import Prepared

NEEDS = ("starlette", "uvicorn")
DRAIN_S = 30


@dataclass(frozen=True)
class Address:
    """Where to listen. Nothing is encrypted and nobody is asked who he is."""

    host: str = "127.0.0.1"
    port: int = 8000

    @property
    def only_here(self) -> bool:
        """Whether other machines cannot reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def require_web() -> None:
    if missing := [name for name in NEEDS if find_spec(name) is None]:
        raise ServeError(
            f"serving over HTTP needs {', '.join(missing)}: pip install 'paceline[serve]'"
        )


async def serve(
    prepared: Prepared, rules: Rules, address: Address, said: Callable[[str], None]
) -> None:
    """Start the instances, listen, and answer until SIGTERM or SIGINT; then drain."""
    require_web()
    import uvicorn

    from paceline.serve.http import Served, app

    planned = prepared.planned
    dispatcher = Dispatcher(prepared.template, planned, rules)
    with _listening(address) as listening:
        await dispatcher.start(planned.plans[prepared.job.batch])
        try:
            served = Served(dispatcher, prepared.template.built.signature, prepared.job.batch)
            config = uvicorn.Config(
                app(served),
                log_level="warning",
                lifespan="off",
                timeout_graceful_shutdown=DRAIN_S,
            )
            said(_where(address, listening))
            await uvicorn.Server(config).serve([listening])
        finally:
            await dispatcher.stop()


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=1024)
    except OSError as error:
        raise ServeError(
            f"cannot listen on {address.host} port {address.port}: {error.strerror or error}. Give "
            "another --port or --host"
        ) from error


def _where(address: Address, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    host = f"[{address.host}]" if ":" in address.host else address.host
    reach = "this machine alone" if address.only_here else "ANY machine that reaches it, unasked"
    return f"serving on http://{host}:{port} (for {reach})"
