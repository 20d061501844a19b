"""A Telegram on this machine: the Bot API as its public description has it, for tests of what speaks to it.

It listens on 127.0.0.1 only and wants the token in the path. `post`, `message` and `press` of its `state` are what people do in their
chats; `cut`, `flood`, `garble`, `refuse` and `slow` are what goes wrong. A client that works with it works with the real one: only the
address is another.
"""

import time
import urllib.request
from email.parser import BytesParser
from typing import TYPE_CHECKING, Any, Final, Self, cast, final
from urllib.error import HTTPError
from urllib.parse import parse_qsl

import msgspec

from metier.testing.bot_api_methods import BotState, Refusal, Sent

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import Message
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

MAX_BODY: Final = 52_428_800
SILENCE_SECONDS: Final = 60.0
SECRET_HEADER: Final = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105  the name of a header


@final
class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it came."""

    method: str
    given: dict[str, Any]
    status: int
    """What it was answered with; 0 where the connection was cut."""


@final
class BotApiServer:
    """`with BotApiServer() as telegram:`, and give the client `telegram.url` and `telegram.token`."""

    def __init__(self, *, token: str = "7000000001:AAtest-token_of-a-bot-that-is-none-00") -> None:  # noqa: S107
        """The number before the colon is the bot's."""
        self.token = token
        self.state = BotState(int(token.partition(":")[0]))
        self.asked: list[Asked] = []
        self._cuts: list[str] = []
        self._floods: list[int] = []
        self._garbled: list[bytes] = []
        self._refused: list[tuple[str, str]] = []
        self._broken = 0
        self._delay = 0.0
        self._server: ThreadingHTTPServer | None = None
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        from http.server import ThreadingHTTPServer
        from threading import Thread

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.handle_error = lambda request, client_address: None  # who went away is no news
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
        """Where it is, without the path."""
        if self._server is None:
            raise RuntimeError("it runs only inside its with block")
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    # --- what goes wrong

    def cut(self, times: int = 1, *, after: bool = False) -> None:
        """Close the connection of the next requests without an answer; with `after`, once what was asked was done."""
        self._cuts += ["after" if after else "before"] * times

    def flood(self, seconds: int, times: int = 1) -> None:
        """Answer the next messages that are sent with 429."""
        self._floods += [seconds] * times

    def garble(self, data: bytes = b'{"ok": tru', times: int = 1) -> None:
        """Answer the next polls with this, and status 200."""
        self._garbled += [data] * times

    def refuse(self, method: str, description: str, times: int = 1) -> None:
        """Answer the next requests of a method with a 400."""
        self._refused += [(method, f"Bad Request: {description}")] * times

    def fail(self, times: int = 1) -> None:
        """Answer the next requests with a 502, in HTML as a proxy would."""
        self._broken += times

    def slow(self, seconds: float) -> None:
        """Take so long for every answer."""
        self._delay = seconds

    # --- what a test waits for

    def wait(self, seen: "Callable[[BotState], object]", seconds: float = 10.0) -> bool:
        """Wait until `seen` says yes of the state; gives whether it did."""
        with self.state.turn:
            return bool(self.state.turn.wait_for(lambda: bool(seen(self.state)), seconds))

    def texts(self, chat: int) -> list[str]:
        """What the bot said in a chat, in order, as it stands now."""
        return [each.text for each in self.state.sent if each.chat == chat]

    def last(self, chat: int) -> Sent:
        """The newest message of the bot in a chat that has buttons or had some."""
        return next(each for each in reversed(self.state.sent) if each.chat == chat)

    def deliver(self, to: str, *, secret: str | None = None, times: int = 1) -> list[int]:
        """Send everything that waits to a webhook, each so many times, in order; gives the answers. What was accepted is
        confirmed. The real one sends to the URL it was told, over TLS, which a proxy in front of `to` would take off."""
        told = self.state.webhook.get("secret_token") if secret is None else secret
        statuses: list[int] = []
        while self.state.waiting:
            update = self.state.waiting[0]
            found = [_posted(to, update, str(told or "")) for _ in range(times)]
            statuses += found
            if any(status >= 300 for status in found):
                break
            with self.state.turn:
                self.state.confirmed.append(self.state.waiting.popleft())
        return statuses

    # --- the wire

    def answer(self, path: str, kind: str, data: bytes) -> tuple[int, bytes] | None:
        """Status and body; None to cut the connection."""
        if self._delay:
            time.sleep(self._delay)
        place, _, query = path.partition("?")
        before, _, method = place.removeprefix("/").partition("/")
        given = {**dict(parse_qsl(query)), **_fields(kind, data)}
        cut = self._cuts.pop(0) if self._cuts else ""
        status, body = (0, b"") if cut == "before" else self._done(before, method, given)
        status = 0 if cut else status
        self.asked.append(Asked(method=method, given=given, status=status))
        return None if cut else (status, body)

    def _done(self, before: str, method: str, given: dict[str, Any]) -> tuple[int, bytes]:
        try:
            if self._broken:
                self._broken -= 1
                return 502, b"<html>502 Bad Gateway</html>"
            if before != f"bot{self.token}":
                raise Refusal(401, "Unauthorized")
            if self._garbled and method == "getUpdates":
                return 200, self._garbled.pop(0)
            if self._refused and method == self._refused[0][0]:
                raise Refusal(400, self._refused.pop(0)[1])
            if self._floods and method.startswith(("send", "edit")):
                seconds = self._floods.pop(0)
                raise Refusal(429, f"Too Many Requests: retry after {seconds}", seconds)
            return 200, msgspec.json.encode({"ok": True, "result": self.state.do(method, given)})
        except Refusal as refusal:
            return refusal.code, msgspec.json.encode(refusal.body)


def _posted(to: str, update: dict[str, Any], secret: str) -> int:
    headers = {"Content-Type": "application/json"} | ({SECRET_HEADER: secret} if secret else {})
    request = urllib.request.Request(to, msgspec.json.encode(update), headers)  # noqa: S310  a test's own server
    try:
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
            return int(response.status)
    except HTTPError as error:
        error.close()
        return error.code


def _fields(kind: str, data: bytes) -> dict[str, Any]:
    """What was given, however it was written."""
    if kind.startswith("application/json"):
        try:
            found = msgspec.json.decode(data or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if kind.startswith("multipart/form-data"):
        whole = BytesParser().parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + data)
        made: dict[str, Any] = {}
        for part in cast("list[Message]", whole.get_payload()):
            body = cast("bytes", part.get_payload(decode=True))
            name = str(part.get_param("name", header="content-disposition"))
            made[name] = body if part.get_filename() else body.decode()
        return made
    return dict(parse_qsl(data.decode(errors="replace")))


def _handler(api: BotApiServer) -> "type[BaseHTTPRequestHandler]":
    from http.server import BaseHTTPRequestHandler

    class Handler(BaseHTTPRequestHandler):
        timeout = SILENCE_SECONDS
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "0")
            if not length.isdecimal() or int(length) > MAX_BODY:
                self.send_error(413)
                return
            data = self.rfile.read(int(length))
            found = api.answer(self.path, self.headers.get("Content-Type", ""), data)
            if found is None:
                self.close_connection = True
                self.connection.close()
                return
            status, body = found
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # who asked went away

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            """A test's output is its own."""

    return Handler
