"""What one running call may ask of the host, and that it ends with the call."""

import logging
import time
from typing import Any

import anyio
import pytest

from metier.host.bridge import BURST, Bridge
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered

NOTHING = PermissionSet()


class Service:
    """Answers with what it is told to, and remembers what it was asked."""

    def __init__(self, answer: Any = None, *, for_whom: Any = lambda _permissions: True) -> None:
        self.asked: list[dict[str, Any]] = []
        self.closed = 0
        self._answer = answer
        self._for_whom = for_whom

    def allowed(self, permissions: PermissionSet) -> bool:
        return self._for_whom(permissions)

    async def answer(self, params: dict[str, Any]) -> Answered | NotAnswered:
        self.asked.append(params)
        if isinstance(self._answer, Exception):
            raise self._answer
        if callable(self._answer):
            return await self._answer(params)
        return Answered(value=self._answer)

    async def aclose(self) -> None:
        self.closed += 1


def ask(bridge: Bridge, method: str, **params: Any) -> Answered | NotAnswered:
    return anyio.run(lambda: bridge.ask(method, params))


def test_a_known_method_is_answered_by_its_service() -> None:
    service = Service("yes")
    bridge = Bridge("call_1", "notes", NOTHING, {"thing.do": service})
    assert ask(bridge, "thing.do", a=1) == Answered(value="yes")
    assert service.asked == [{"a": 1}]


@pytest.mark.parametrize("method", ["thing", "thing.do.more", "", "Thing.do", "__class__", "x" * 10_000])
def test_an_unknown_method_is_not_found_and_no_violation(method: str) -> None:
    answer = ask(Bridge("call_1", "notes", NOTHING, {"thing.do": Service()}), method)
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.kind) == ("NotFound", "failed")
    assert len(answer.message) < 200


def test_a_method_outside_the_permissions_is_a_violation_and_is_not_asked() -> None:
    service = Service(for_whom=lambda permissions: bool(permissions.channels))
    answer = ask(Bridge("call_1", "notes", NOTHING, {"send": service}), "send")
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.kind) == ("PermissionDenied", "violation")
    assert service.asked == []
    granted = PermissionSet(channels=frozenset({"telegram"}))
    assert isinstance(ask(Bridge("call_1", "notes", granted, {"send": service}), "send"), Answered)


def test_a_fault_of_the_host_crosses_as_a_name_and_a_sentence_only(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(RuntimeError("/home/operator/.metier/keys: token s3cr3t"))
    with caplog.at_level(logging.ERROR):
        answer = ask(Bridge("call_1", "notes", NOTHING, {"thing": service}), "thing")
    assert answer == NotAnswered(name="HostError", message="The host could not answer thing")
    assert "call_1" in caplog.text  # the operator can find out what happened


def test_js_18_after_the_call_ended_everything_is_refused() -> None:
    service = Service("yes")
    bridge = Bridge("call_1", "notes", NOTHING, {"thing": service})
    assert isinstance(ask(bridge, "thing"), Answered)
    bridge.close()
    answer = ask(bridge, "thing")
    assert isinstance(answer, NotAnswered)
    assert answer.name == "CallOver"
    assert len(service.asked) == 1


def test_js_18_an_answer_that_comes_after_the_end_is_not_handed_on() -> None:
    async def main() -> Answered | NotAnswered:
        async def slow(_params: dict[str, Any]) -> Answered:
            bridge.close()
            return Answered(value="late")

        bridge = Bridge("call_1", "notes", NOTHING, {"thing": Service(slow)})
        return await bridge.ask("thing", {})

    answer = anyio.run(main)
    assert isinstance(answer, NotAnswered)


def test_js_18_who_asks_is_never_said_by_who_asks() -> None:
    """Another identity in the parameters is data like any other: it reaches the service and changes nothing."""
    service = Service(for_whom=lambda permissions: bool(permissions.binaries))
    bridge = Bridge("call_1", "notes", NOTHING, {"exec": service})
    answer = ask(bridge, "exec", skill="other", call_id="call_2", permissions={"binaries": ["ls"]})
    assert isinstance(answer, NotAnswered)
    assert answer.kind == "violation"


def test_services_are_closed_once_with_the_call() -> None:
    service = Service()

    async def main() -> None:
        async with Bridge("call_1", "notes", NOTHING, {"a": service, "b": service}) as bridge:
            await bridge.ask("a", {})
            assert service.closed == 0
        assert isinstance(await bridge.ask("a", {}), NotAnswered)

    anyio.run(main)
    assert service.closed == 1


def test_res_23_a_flood_of_requests_is_told_to_slow_down_and_then_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    service = Service("yes")
    bridge = Bridge("call_1", "notes", NOTHING, {"log": service})

    async def flood(count: int) -> list[Answered | NotAnswered]:
        return [await bridge.ask("log", {}) for _ in range(count)]

    # Coroutines that never wait need no loop, whose clock stands still here.
    def run(count: int) -> list[Answered | NotAnswered]:
        try:
            flood(count).send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("it waited")

    said = run(BURST + 100)
    assert sum(isinstance(each, Answered) for each in said) == BURST
    assert {each.name for each in said if isinstance(each, NotAnswered)} == {"Busy"}
    now += 0.5
    assert sum(isinstance(each, Answered) for each in run(300)) == 100


def test_cancelling_reaches_the_service() -> None:
    ended: list[str] = []

    async def wait(_params: dict[str, Any]) -> Answered:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("yes")

    async def main() -> None:
        bridge = Bridge("call_1", "notes", NOTHING, {"thing": Service(wait)})
        with anyio.move_on_after(0.01):
            await bridge.ask("thing", {})

    anyio.run(main)
    assert ended == ["yes"]
