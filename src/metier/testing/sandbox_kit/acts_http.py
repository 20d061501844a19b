"""The acts of a server, for a sandbox that sends requests: what the code would do elsewhere, the answer does here.

An act is a path, its parameters are the JSON it is sent. An answer that takes its time comes piece by piece, and an
empty piece means: wait.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

Answer: TypeAlias = Iterator[bytes]
Act: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, str]], Answer]

_PAUSE: Final = 0.02
_PIECE: Final = b"x" * 65_536


def _head(status: str = "200 OK", kind: str = "application/json", **more: str) -> bytes:
    lines = {
        "Content-Type": kind,
        "Connection": "close",
        **{name.replace("_", "-"): more[name] for name in more},
    }
    told = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{told}\r\n".encode("latin-1")


def _json(value: object) -> Answer:
    yield _head() + json.dumps(value, ensure_ascii=False).encode()


def _waits(seconds: float) -> Answer:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(_PAUSE)
        yield b""


def echo(params: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    return _json(params)


def loop(params: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    """An answer without an end: always a little more."""
    yield _head(kind="text/plain")
    while True:
        time.sleep(_PAUSE)
        yield b"."


def regex(params: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    """A head without an end."""
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        time.sleep(_PAUSE)
        yield b"X-More: 1\r\n"


def sleep(params: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    yield from _waits(params["seconds"])
    yield from _json("slept")


def memory(params: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    yield _head(kind="application/octet-stream")
    for _ in range(params["mb"] * 16):
        yield _PIECE


def flood(params: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    yield _head(kind="text/plain")
    written = 0
    while not params["mb"] or written < params["mb"] << 20:
        yield _PIECE
        written += len(_PIECE)


def write(params: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    yield _head(kind="text/plain") + bytes.fromhex(params["hex"])


def end(params: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    """No answer at all, or one that says no."""
    if params["how"] == "raise":
        yield _head("500 Oops", "text/plain") + params["text"].encode()


def burn(params: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    yield from _waits(params["cpu"])
    yield _head(kind="text/plain") + b"e" * params["output"]
    yield from _waits(60 if params["stay"] else 0)


def look_for_mark(params: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    """What a client that remembers would send again, and what makes it remember."""
    said: dict[str, Any] = {
        "files": ["mark"] if "mark" in headers.get("cookie", "") else [],
        "module": "if-none-match" in headers or "if-modified-since" in headers,
        "name": "authorization" in headers,
        "variable": "referer" in headers,
        "random": [random.random(), random.getrandbits(32)],  # noqa: S311
    }
    yield (
        _head(Set_Cookie="mark=1; Path=/", ETag='"mark"', Cache_Control="max-age=60")
        + json.dumps(said).encode()
    )


_ODD: Final[dict[str, bytes]] = {
    "object": b'{"a":', "set": b"[1,2", "cycle": b"[1]]", "deep": b"[" * 100_000, "not_a_number": b"NaN",
    "bytes": b'"\xff"', "half_a_character": b'"\\ud800"', "great_number": b"1e999", "text": b'"plain"',
    "proto": b'{"__proto__":{"polluted":true},"constructor":1}', "patched": b"not json",
}  # fmt: skip


def odd_result(params: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    yield _head() + (_ODD.get(params["kind"]) or b'"' + b"x" * (params["bytes"] + 100) + b'"')


ACTS: Final[dict[str, Act]] = {
    each.__name__: each
    for each in (echo, loop, regex, sleep, memory, flood, write, end, burn, look_for_mark, odd_result)
} | {"talk": echo}


def answer(target: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """What the server says to one request."""
    act = ACTS.get(target.strip("/"))
    if act is None:
        return iter((_head("404 Not Found", "text/plain") + b"there is no such act",))
    return act(json.loads(body or b"{}"), headers)
