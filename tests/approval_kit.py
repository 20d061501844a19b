"""Calls that must be asked, and a desk to ask them at: what tests of approvals share."""

import secrets
import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from metier.gate.fingerprint import fingerprint
from metier.gate.shown import shown
from metier.model.approval import Approval, Shown, StandingGrant
from metier.model.call import AuthorizedCall, Bytes, Call, Principal, Surroundings, ValidCall
from metier.model.entry import PythonHandler
from metier.model.permission import PermissionSet
from metier.model.role import ROLES
from metier.model.skill import Skill, Tool
from metier.model.verdict import Verdict
from metier.record.approval_clock import Moment, moment
from metier.record.approval_word import word_for
from metier.record.approvals import NewApproval, claim_problem, find, queue_problem, take_claim, take_queue
from metier.record.chain import Act, append
from metier.record.database import Database
from metier.record.deciding import Decider, Undecided, decide
from metier.record.standing import proposed_grant

TOOL = Tool(
    name="notes/remove",
    description="Removes a note.",
    parameters={"type": "object"},
    risk="high",
    permissions=PermissionSet(reads=frozenset({"/notes"}), env=frozenset({"LANG"})),
    entry=PythonHandler(path="remove.py"),
)
SKILL = Skill(name="notes", description="Keeps notes.", dialect="metier", version="1.2", tools=(TOOL,))
AGENT = Principal(id="agent:a", kind="agent", on_behalf_of="human:owner")
OWNER = Decider(id="human:owner", kind="human", rights=ROLES["owner"])
DIGEST = "sha256:" + "a" * 64
CWD = "/work (device 1, inode 2)"


def wanted(
    arguments: dict[str, Any] | None = None,
    *,
    call_id: str = "call_1",
    principal: Principal = AGENT,
    tool: Tool = TOOL,
    skill: Skill | None = SKILL,
    digest: str = DIGEST,
    session: str | None = "session-1",
    caller: str | None = None,
    deciding: str = "supervised_auto none",
    cwd: str | None = "/work",
    permissions: PermissionSet | None = None,
    verdict: Verdict | None = None,
) -> AuthorizedCall:
    """A call that every layer looked at and one wants to have asked."""
    given = {"id": 7, "folder": "/notes"} if arguments is None else arguments
    call = Call(
        id=call_id,
        principal=principal,
        tool=tool.name,
        arguments=given,
        cwd=cwd,
        surroundings=Surroundings(session=session, caller_id=caller),
    )
    valid = ValidCall(
        call=call,
        tool=tool,
        arguments=given,
        skill=skill,
        permissions=tool.permissions if permissions is None else permissions,
    )
    return AuthorizedCall(
        valid=valid,
        verdict=verdict or Verdict.ask("high risk is asked at trust level 'supervised_auto'"),
        bytes=Bytes(digest=digest) if skill else None,
        trust_level="supervised_auto",
        deciding=deciding,
    )


def seen(authorized: AuthorizedCall, cwd: str = CWD) -> Shown:
    """What its approver sees."""
    made = shown(authorized, cwd=cwd)
    assert isinstance(made, Shown)
    return made


def ask(
    database: Database,
    authorized: AuthorizedCall | None = None,
    *,
    now: Moment | None = None,
    seconds: float = 900.0,
    cap: int = 100,
) -> str:
    """Queue a request as the pipeline does, and give its id."""
    with database.transaction() as connection:
        return ask_in(connection, authorized, now=now, seconds=seconds, cap=cap)


def ask_in(
    connection: sqlite3.Connection,
    authorized: AuthorizedCall | None = None,
    *,
    now: Moment | None = None,
    seconds: float = 900.0,
    cap: int = 100,
) -> str:
    """The same inside a transaction. Fails when the principal may not ask for more."""
    authorized = authorized or wanted()
    call, at, key = authorized.valid.call, moment(now), secrets.token_bytes(32)
    made = NewApproval(
        id=f"apr_{secrets.token_hex(12)}",
        call=call,
        shown=seen(authorized),
        key=key,
        fingerprint=fingerprint(authorized, cwd=CWD, key=key),
        now=at,
        seconds=seconds,
    )
    problem = queue_problem(connection, call.principal.id, cap, at)
    assert not problem, problem
    act = Act(principal=call.principal.id, call_id=call.id, tool=call.tool)
    seq = append(
        connection, "skill_approval_queued", act, at=at.text, grant=made.record_digest, approval=made.id
    )
    take_queue(connection, made, seq)
    return made.id


def claim(
    database: Database,
    approval: str,
    authorized: AuthorizedCall | None = None,
    *,
    cwd: str = CWD,
    now: Moment | None = None,
) -> str:
    """Begin the act on a decision as the pipeline does; empty when it began, else why not."""
    authorized = authorized or wanted()
    call = authorized.valid.call
    with database.transaction() as connection:
        problem = claim_problem(connection, approval, call.principal.id, printer(authorized, cwd), now)
        if not problem:
            begin(connection, call, approval)
    return problem


def claim_again(database: Database, authorized: AuthorizedCall, *, now: Moment | None = None) -> str | None:
    """Begin an act that is asked again, on the yes that is there for it, and give the id of that; None when there is none."""
    call = authorized.valid.call

    def printed(key: bytes, id: str, attempt: int) -> str:
        return fingerprint(authorized, cwd=CWD, key=key, asked_as=(id, attempt))

    with database.transaction() as connection:
        word = word_for(connection, call, seen(authorized), printed, moment(now))
        if word is not None:
            begin(connection, call, word.approval)
    return word.approval if word is not None else None


def begin(connection: sqlite3.Connection, call: Call, approval: str) -> None:
    """Record the intent, and use the decision up."""
    act = Act(principal=call.principal.id, call_id=call.id, tool=call.tool, evidence=approval)
    seq = append(connection, "skill_execution_started", act, at=moment().text)
    connection.execute("INSERT INTO open_intent (seq, call_id) VALUES (?, ?)", (seq, call.id))
    connection.execute("INSERT INTO begun VALUES (?, ?, ?)", (call.id, call.attempt, seq))
    take_claim(connection, approval, seq)


def printer(authorized: AuthorizedCall, cwd: str = CWD) -> Callable[[bytes], str]:
    return lambda key: fingerprint(authorized, cwd=cwd, key=key)


def approve(
    database: Database, approval: str, *, by: Decider = OWNER, now: Moment | None = None, **more: Any
) -> Approval:
    """Approve it, which is expected to work."""
    made = decide(database, approval, by=by, decision="approve", now=now, **more)
    assert isinstance(made, Approval), made
    return made


def approved_once(database: Database, authorized: AuthorizedCall | None = None) -> str:
    """Asked and approved, not yet run."""
    approval = ask(database, authorized)
    approve(database, approval)
    return approval


def undecided(made: Approval | Undecided) -> Undecided:
    """The refusal of a decision, which is expected."""
    assert isinstance(made, Undecided), made
    return made


def state(database: Database, approval: str, now: Moment | None = None) -> str:
    found = find(database, approval, now)
    assert found is not None
    return found.state


def given(
    authorized: AuthorizedCall | None = None, *, scope: Any = "always", cwd: str = CWD, **more: Any
) -> StandingGrant:
    """The grant that approving a call would give."""
    made = proposed_grant(
        seen(authorized or wanted(), cwd), scope, approval="apr_x", by="human:owner", **more
    )
    assert isinstance(made, StandingGrant), made
    return made


def later(now: Moment, seconds: float, *, wall: bool = True, running: bool = True) -> Moment:
    """`now`, as far as each clock went on."""
    return Moment(
        wall=now.wall + (seconds if wall else 0.0),
        boot=now.boot,
        running=now.running + (seconds if running else 0.0),
    )


def changed(value: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(value, **fields)
