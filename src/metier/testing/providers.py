"""A provider on this machine that says what a script tells it, and checks what it is sent as the real one would.

It listens on 127.0.0.1 only and answers one request at a time. A request the real provider would refuse gets a 400
in that provider's shape, is kept with the reason, and uses up no turn of the script.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeAlias, cast, final

import msgspec

import metier.testing.anthropic_wire as anthropic_wire
import metier.testing.openai_wire as openai_wire
from metier.testing.script import Turn, calls_of
from metier.testing.shapes import field, items

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

Provider: TypeAlias = Literal["openai", "anthropic"]

MAX_BODY: Final = 8_388_608
MAX_REQUESTS: Final = 1_000
SILENCE_SECONDS: Final = 5.0
"""How long a client may keep the server waiting."""


class _Wire(NamedTuple):
    problems: Callable[[Any], Iterator[str]]
    reply: Callable[[Any, Turn, int], dict[str, Any]]


_WIRES: Final[dict[Provider, dict[str, _Wire]]] = {
    "openai": {
        "/v1/chat/completions": _Wire(openai_wire.chat_problems, openai_wire.chat_reply),
        "/v1/responses": _Wire(openai_wire.responses_problems, openai_wire.responses_reply),
    },
    "anthropic": {"/v1/messages": _Wire(anthropic_wire.messages_problems, anthropic_wire.messages_reply)},
}


@final
class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it came."""

    path: str
    body: Any
    """The parsed JSON; None when it was none."""
    problem: str = ""
    """Why it was refused; empty when it was answered."""


@final
class ProviderServer:
    """A scripted provider. `with ProviderServer("openai", script=[…]) as server:` and give the SDK `server.url`."""

    def __init__(self, provider: Provider, *, script: Sequence[Turn]) -> None:
        if provider not in _WIRES:
            raise ValueError(f"{provider!r} is not a provider; they are: {', '.join(_WIRES)}")
        if provider == "anthropic" and any(
            isinstance(call.arguments, str) for turn in script for call in calls_of(turn)
        ):
            raise ValueError("Anthropic sends arguments as an object, never as text")
        self.requests: list[Received] = []
        self._provider: Provider = provider
        self._script = list(script)
        self._answered = 0
        self._conversations: dict[str, list[Any]] = {}
        self._server: HTTPServer | None = None
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        from http.server import HTTPServer
        from threading import Thread

        self._server = HTTPServer(("127.0.0.1", 0), _handler(self._answer))
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    @property
    def url(self) -> str:
        """The base URL, as the provider's SDK wants it."""
        if self._server is None:
            raise RuntimeError("the server runs only inside its with block")
        address = f"http://127.0.0.1:{self._server.server_address[1]}"
        return f"{address}/v1" if self._provider == "openai" else address

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead the provider's SDK here."""
        name = self._provider.upper()
        return {f"{name}_BASE_URL": self.url, f"{name}_API_KEY": "test"}

    @property
    def remaining(self) -> int:
        """How many turns of the script were not said yet."""
        return len(self._script) - self._answered

    def _answer(self, path: str, headers: dict[str, str], data: bytes) -> tuple[int, dict[str, Any]]:
        try:
            body: Any = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            body = None
        wire = _WIRES[self._provider].get(path)
        status, problem = (404, f"there is no {path}") if wire is None else self._judge(wire, headers, body)
        if len(self.requests) < MAX_REQUESTS:
            self.requests.append(Received(path=path, body=body, problem=problem))
        if wire is None or problem:
            return status, self._refusal(status, problem)
        turn = self._script[self._answered]
        self._answered += 1
        reply = wire.reply(body, turn, self._answered)
        self._conversations[reply["id"]] = [*_said(self._whole(body)), *items(reply.get("output"))]
        return 200, reply

    def _judge(self, wire: _Wire, headers: dict[str, str], body: Any) -> tuple[int, str]:
        """The status and the reason of a refusal; no reason when there is none."""
        keys = ("authorization", "x-api-key") if self._provider == "anthropic" else ("authorization",)
        if not any(headers.get(key, "").removeprefix("Bearer").strip() for key in keys):
            return 401, f"there is no API key in the header {' or '.join(keys)}"
        if not isinstance(body, dict):
            return 400, "the body is not a JSON object"
        previous = field(body, "previous_response_id")
        if previous is not None and previous not in self._conversations:
            return 400, f"previous_response_id: there is no response {previous!r}"
        problem = next(wire.problems(self._whole(body)), "")
        if self._provider == "anthropic":
            problem = next(anthropic_wire.version_problems(headers.get("anthropic-version"), body), problem)
        if not problem and (not self.remaining or len(self.requests) >= MAX_REQUESTS):
            problem = "the script has no further turn"
        return 400, problem

    def _whole(self, body: Any) -> dict[str, Any]:
        """The request with the conversation it continues written out."""
        whole = cast("dict[str, Any]", body)
        before = self._conversations.get(str(whole.get("previous_response_id")))
        return whole if before is None else {**whole, "input": [*before, *_said(whole)]}

    def _refusal(self, status: int, problem: str) -> dict[str, Any]:
        if self._provider == "openai":
            return openai_wire.error(problem, "invalid_api_key" if status == 401 else None)
        kinds = {401: "authentication_error", 404: "not_found_error"}
        return anthropic_wire.error(problem, kinds.get(status, "invalid_request_error"))


def _said(body: Any) -> list[Any]:
    given = field(body, "input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else items(given)


def _handler(
    answer: Callable[[str, dict[str, str], bytes], tuple[int, dict[str, Any]]],
) -> "type[BaseHTTPRequestHandler]":
    from http.server import BaseHTTPRequestHandler

    class Handler(BaseHTTPRequestHandler):
        timeout = SILENCE_SECONDS

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > MAX_BODY:
                self.send_error(413)
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, reply = answer(self.path.partition("?")[0], headers, self.rfile.read(int(length)))
            data = msgspec.json.encode(reply)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """A test's output is its own."""

    return Handler
