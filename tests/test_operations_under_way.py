"""An operation of ours is a run like any other: it is among those under way, and whoever stops runs ends it too."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from msgspec import structs

from gatehouse import OWNER
from metier.execute import execute
from metier.host.running import STOPPED, Running
from metier.model.call import ApprovedCall, AuthorizedCall, Bytes, Call, Principal, ValidCall
from metier.model.outcome import Attempt, Completed, Failed, Outcome, Run
from metier.model.permission import PermissionSet
from metier.model.ports import OperationFunction
from metier.model.skill import Skill
from metier.model.verdict import Verdict
from metier.pipeline import House, run
from metier.prepare import Ready, Workshop
from parlour import AGENT, Parlour, tool

CALL = Call(
    id="call_1",
    principal=Principal(id=AGENT, kind="agent", on_behalf_of=OWNER),
    tool="send",
    arguments={"to": "ada", "text": "tea?"},
)


class Waits:
    """Offers one operation, which waits until it is ended."""

    def __init__(self) -> None:
        self.begun = anyio.Event()

    def find(self, module: str, operation: str) -> OperationFunction:
        return self._wait

    async def _wait(self, approved: ApprovedCall) -> Completed | Failed:
        self.begun.set()
        await anyio.sleep_forever()
        raise AssertionError("nothing wakes it")


async def ended_by(house: House, running: Running, end: Callable[[Running], None]) -> Outcome:
    waits, made = Waits(), list[Outcome]()

    async def work() -> None:
        mine = structs.replace(house, operations=waits, workshop=Workshop(running=running))
        made.append(await run(CALL, mine))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await waits.begun.wait()
            assert running.skills == {""}
            end(running)
    assert not running.skills
    return made[0]


def stop(running: Running) -> None:
    running.stop_all("enough")


def cancel(running: Running) -> None:
    running.cancel("call_1", OWNER)


@pytest.mark.parametrize(
    ("end", "why"), [(stop, "everything was stopped: enough"), (cancel, f"{OWNER} cancelled it")]
)
def test_an_operation_ends_when_it_is_stopped_and_says_why(
    tmp_path: Path, end: Callable[[Running], None], why: str
) -> None:
    parlour = Parlour(tmp_path, tool())
    assert anyio.run(ended_by, parlour.house, Running(), end) == Failed(
        call_id="call_1", code="interrupted", message=why
    )
    assert [record.event for record in parlour.log.tail(9)] == [
        "skill_execution_started",
        "skill_execution_error",
    ]


def test_a_caller_who_goes_away_ends_the_operation_and_not_its_record(tmp_path: Path) -> None:
    parlour, waits = Parlour(tmp_path, tool()), Waits()

    async def work() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, CALL, structs.replace(parlour.house, operations=waits))
            await waits.begun.wait()
            tasks.cancel_scope.cancel()

    anyio.run(work)
    assert parlour.log.tail(1)[0].code == "interrupted"


def approved(parlour: Parlour) -> ApprovedCall:
    """The call, as one of the skill `tea`."""
    skill = Skill(name="tea", description="", dialect="agent_skills")
    valid = ValidCall(
        call=CALL, tool=parlour.tools["send"], arguments={}, skill=skill, permissions=PermissionSet()
    )
    allowed = AuthorizedCall(valid=valid, verdict=Verdict.allow("it may"), bytes=Bytes(digest="sha256:1"))
    return ApprovedCall(authorized=allowed, evidence="policy")


def test_an_operation_of_a_skill_that_was_stopped_meanwhile_does_not_begin(tmp_path: Path) -> None:
    parlour, running = Parlour(tmp_path, tool()), Running()
    ready, workshop = Ready(approved=approved(parlour), mark=running.mark("tea")), Workshop(running=running)
    assert isinstance(anyio.run(execute, ready, parlour, workshop), Completed)
    assert len(parlour.ran) == 1
    running.stop("tea")
    assert anyio.run(execute, ready, parlour, workshop) == Failed(
        call_id="call_1", code="interrupted", message=STOPPED
    )
    assert len(parlour.ran) == 1


def test_an_operation_that_tells_of_a_violation_bars_the_skill_before_its_outcome(tmp_path: Path) -> None:
    parlour, running, disabled = Parlour(tmp_path, tool()), Running(), list[tuple[str, ...]]()
    run_of_it = Run(sandbox="x", violations=(Attempt(kind="mount", detail="/"),))
    parlour.returns = Failed(call_id="call_1", code="violation", message="it did", run=run_of_it)

    def disable(*what: str) -> None:
        disabled.append(what)

    workshop = Workshop(running=running, disable=disable)
    ready = Ready(approved=approved(parlour), mark=running.mark("tea"))
    assert anyio.run(execute, ready, parlour, workshop) == parlour.returns
    why = "it tried what no skill may ever do: mount"
    assert disabled == [("tea", "call_1", why, "sha256:1")]
    assert running.mark("tea") == 1
