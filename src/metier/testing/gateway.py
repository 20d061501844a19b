"""A gateway on this machine that speaks OpenAI's chat completions, as OpenClaw's does: for tests of skills that use one.

It listens on 127.0.0.1 only, wants its token, and refuses in OpenAI's shape what the real endpoint would refuse. What it
says is what the test tells it, the word for a delivered message by default.
"""

import hmac
from typing import TYPE_CHECKING, Any, Final, Self, final

import msgspec

from metier.testing.openai_wire import chat_problems, chat_reply, error
from metier.testing.shapes import field, items

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

ENDPOINT: Final = "/v1/chat/completions"
MAX_BODY: Final = 1_048_576
SILENCE_SECONDS: Final = 5.0
"""How long a client may keep the gateway waiting."""


@final
class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it came."""

    status: int
    """What it was answered with."""
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """The parsed JSON; None when it was none."""

    @property
    def content(self) -> Any:
        """What the last message says, parsed where it is JSON."""
        messages = items(field(self.body, "messages"))
        text: Any = field(messages[-1], "content") if messages else None
        try:
            return msgspec.json.decode(text) if isinstance(text, str) else text
        except msgspec.DecodeError:
            return text


@final
class FakeGateway:
    """`with FakeGateway() as gateway:`, and configure `gateway.url` and `gateway.token`."""

    def __init__(self, *, token: str = "test-gateway-token-1", says: str = "DELIVERED") -> None:  # noqa: S107
        self.token = token
        self.says = says
        """What it answers to a request that is in order. May be changed meanwhile."""
        self.status = 200
        """Another status refuses what is in order."""
        self.headers: dict[str, str] = {}
        """Sent with every answer."""
        self.raw: bytes | None = None
        """Sent in place of a chat completion."""
        self.requests: list[Posted] = []
        self._server: ThreadingHTTPServer | None = None
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        from http.server import ThreadingHTTPServer
        from threading import Thread

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
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
        """Where it is, without the path of the endpoint."""
        if self._server is None:
            raise RuntimeError("the gateway runs only inside its with block")
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead here."""
        return {"OPENCLAW_GATEWAY_URL": self.url, "OPENCLAW_GATEWAY_TOKEN": self.token}

    @property
    def messages(self) -> list[str]:
        """The texts of all messages that were accepted for the operator, in order."""
        found = (posted.content for posted in self.requests if posted.status == 200)
        return [each["text"] for each in found if isinstance(each, dict) and "text" in each]

    def answer(self, path: str, headers: dict[str, str], data: bytes) -> tuple[int, bytes]:
        """What a request is answered with: a status and a body."""
        try:
            body: Any = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            body = None
        status, said = self._judged(path, headers, body)
        self.requests.append(Posted(status=status, path=path, headers=headers, body=body))
        return status, said if isinstance(said, bytes) else msgspec.json.encode(said)

    def _judged(self, path: str, headers: dict[str, str], body: Any) -> tuple[int, dict[str, Any] | bytes]:
        if path != ENDPOINT:
            return 404, error(f"there is no {path}")
        if not hmac.compare_digest(headers.get("authorization", ""), f"Bearer {self.token}"):
            return 401, error("the token is not right", "invalid_api_key")
        problem = next(chat_problems(body), "") if isinstance(body, dict) else "the body is no JSON object"
        if problem:
            return 400, error(problem)
        if self.raw is not None:
            return self.status, self.raw
        if self.status != 200:
            return self.status, error("the gateway was told to refuse this")
        return 200, chat_reply(body, self.says, len(self.requests) + 1)


def _handler(gateway: FakeGateway) -> "type[BaseHTTPRequestHandler]":
    from http.server import BaseHTTPRequestHandler

    class Handler(BaseHTTPRequestHandler):
        timeout = SILENCE_SECONDS

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > MAX_BODY:
                self.send_error(413)
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, data = gateway.answer(self.path.partition("?")[0], headers, self.rfile.read(int(length)))
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **gateway.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """A test's output is its own."""

    return Handler
