"""Who may ask: pages of this server alone, which know its token.

The name in `Host` keeps out sites that let their own name point here; `Origin` keeps out other
pages of the same browser; the token keeps out other users of the machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hmac import compare_digest

NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Guard:
    """The token in every address, and the port under which the server is reached."""

    token: str
    port: int

    def refusal(self, path: str, headers: Mapping[str, str]) -> str:
        """Why a request is not answered; empty where it is."""
        hosts = [f"{name}:{self.port}" for name in NAMES]
        if headers.get("Host", "") not in hosts:
            return "this server answers to its own name alone"
        origin = headers.get("Origin")
        if origin is not None and origin not in [f"http://{host}" for host in hosts]:
            return "this server answers its own pages alone"
        given = path.lstrip("/").partition("/")[0]
        if not compare_digest(given.encode(), self.token.encode()):
            return "the address lacks the token that `paceline view` printed"
        return ""
