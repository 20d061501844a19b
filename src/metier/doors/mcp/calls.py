"""tools/call: every one is a call through the gate, under the principal that the connection was authenticated as.

    call ─► gate ─► Completed | Failed | Refused                      the client is told
              ├───► confirmation_required ─► the person is asked ─► gate again, in his next turn
              └───► Pending ─► the operator's own client: he is asked, and his word decides
                      └──────► any other: it is held a while for a word from elsewhere, then told with how to decide it

Where the client can ask its person, `confirmed: true` of a model counts for nothing: the question is put by the gate (turn one),
and only an answer to that question is the turn after it. What is answered over such a connection never approves anything, unless
the operator declared this client to be himself; `four_eyes` holds then too.
"""

import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast, final

import anyio
import mcp_types as types
from anyio import to_thread
from mcp.shared.exceptions import MCPError

from metier.catalog.here import owner
from metier.config.settings import Settings
from metier.doors.mcp.artifacts import Artifacts
from metier.doors.mcp.elicitation import ask_by_result, ask_now, can_ask, in_two, question_in, said_in
from metier.doors.mcp.peer import Peer
from metier.doors.mcp.questions import LONGEST, Question, Questions, Said, act_of, new_id
from metier.doors.mcp.refusals import in_our_words
from metier.doors.mcp.results import made_by, result_of
from metier.errors import MetierError
from metier.gate.in_words import lines
from metier.model.approval import Approval
from metier.model.call import Call, Surroundings
from metier.model.confirmation_flag import FLAG, without_flag
from metier.model.digest import Json
from metier.model.exact import laid_out, quoted
from metier.model.misleading import misleading
from metier.model.outcome import Outcome, Pending, Refused
from metier.model.role import APPROVE, ROLES
from metier.model.skill import Tool
from metier.model.text import one_line
from metier.record.approvals import find
from metier.record.deciding import Decider, Undecided, decide
from metier.runtime import Runtime
from metier.runtime.as_raised import as_raised
from metier.runtime.engine import Engine

if TYPE_CHECKING:
    from metier.doors.mcp.peer import Context, Who

_BEAT_SECONDS: Final = 1.0
_MOST_AT_ONCE: Final = 32
"""Calls of one principal under way."""
_T = TypeVar("_T")


@final
class Calls:
    """Belongs to one loop."""

    def __init__(
        self, engine: Engine, who: "Who", artifacts: Artifacts, *, decide_at: Callable[[str], str]
    ) -> None:
        """`decide_at` gives the page where an approval can be decided; empty where there is none."""
        self._engine = engine
        self._who = who
        self._artifacts = artifacts
        self._decide_at = decide_at
        self._questions = Questions()
        self._under_way: dict[str, int] = {}

    async def __call__(
        self, ctx: "Context", params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Answer one request."""
        peer = self._who(ctx)
        id = peer.principal.id
        if self._under_way.get(id, 0) >= _MOST_AT_ONCE:
            raise MCPError(
                -32000, f"{_MOST_AT_ONCE} calls of {id} are under way; call again when one has ended"
            )
        self._under_way[id] = self._under_way.get(id, 0) + 1
        try:
            return await self._with_progress(ctx, partial(self._answer, ctx, peer, params))
        finally:
            self._under_way[id] -= 1
            if not self._under_way[id]:
                del self._under_way[id]

    async def _answer(
        self, ctx: "Context", peer: Peer, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        arguments = cast("dict[str, Json]", params.arguments or {})
        with suppress(MetierError):  # the call itself is refused then, on the record
            await self._engine.refresh()
        name = self._engine.seen.internal(params.name)
        tool = self._engine.kernel.tools(self._engine.seen.tools).get(name)
        asks = tool is not None and tool.confirmation is not None and can_ask(ctx)
        if asks:
            arguments, _ = without_flag(arguments)
        made = _Asked(ctx=ctx, peer=peer, name=name, tool=tool, arguments=arguments)
        if params.input_responses is not None or params.request_state is not None:
            ended = await self._answered(made, params)
        elif asks:
            ended = await self._first(made)
        else:
            ended = await self._pending(made, await self._run(made))
        if isinstance(ended, types.InputRequiredResult):
            return ended
        if isinstance(ended, Refused):
            ended = await in_our_words(self._engine, peer, ended, tool=params.name, skill=made.subject)
        links = self._artifacts.links(peer, made_by(ended))
        page = self._decide_at(ended.approval_id) if isinstance(ended, Pending) else ""
        return result_of(ended, tool.answer if tool else "value", links=links, decide_at=page)

    async def _first(self, made: "_Asked") -> "Outcome | types.InputRequiredResult":
        """The gate puts the question, in turn one of a conversation of its own; the person answers it."""
        id = new_id()
        outcome = await self._run(made, question=id, turn=1)
        if not isinstance(outcome, Refused) or outcome.code != "confirmation_required":
            return await self._pending(made, outcome)
        message = _confirmation(made, outcome)
        if len(message) > LONGEST:
            return _not_shown(outcome, len(message))
        if in_two(made.ctx):
            return ask_by_result(message, self._questions.put("confirm", made.peer, made.act, id=id))
        return await self._confirmed(made, id, await ask_now(made.ctx, message, made.peer.gone))

    async def _answered(
        self, made: "_Asked", params: types.CallToolRequestParams
    ) -> "Outcome | types.InputRequiredResult":
        """An answer came, in a request of its own.

        Raises:
            MCPError: when it answers nothing that was asked here.
        """
        question = question_in(params)
        if question is None or not self._questions.take(question, made.peer, made.act):
            raise MCPError(
                types.INVALID_PARAMS, "this answers no question that was put here; call again without it"
            )
        said = said_in(params)
        if question.kind == "confirm":
            return await self._confirmed(made, question.id, said)
        approval = await to_thread.run_sync(find, self._engine.state.database, question.id)
        if approval is None or not _is_about(question, approval, made.peer):
            raise MCPError(
                types.INVALID_PARAMS, "this answers no question that was put here; call again without it"
            )
        return await self._decided(made, approval, said)

    async def _confirmed(
        self, made: "_Asked", question: str, said: Said
    ) -> "Outcome | types.InputRequiredResult":
        """Run it in the turn after the question, if the answer was yes. What else he said is on the record."""
        if said == "yes":
            return await self._pending(made, await self._run(made, question=question, turn=2))
        call = made.call(question=question, turn=2)
        if said == "no":
            refused = Refused(
                call_id=call.id,
                code="forbidden",
                reasons=("the person was asked and said no",),
                remedy="Do not ask again; tell the user that it was not done",
            )
        else:
            refused = Refused(
                call_id=call.id,
                code="confirmation_required",
                reasons=("the person was asked and did not answer",),
                remedy="Find out whether the person is there; a further call asks him anew",
                prompt=(made.tool.confirmation if made.tool is not None else None) or "",
            )
        return await self._engine.run(call, refused)

    async def _pending(self, made: "_Asked", outcome: Outcome) -> "Outcome | types.InputRequiredResult":
        """What somebody has to decide."""
        if not isinstance(outcome, Pending):
            return outcome
        database, settings = self._engine.state.database, self._engine.seen.settings
        if _is_his(made.peer, settings) and can_ask(made.ctx):
            approval = await to_thread.run_sync(find, database, outcome.approval_id)
            if approval is not None and approval.shown is not None and not _needs_another(approval, settings):
                message = _request(approval)
                if len(message) <= LONGEST:
                    if in_two(made.ctx):
                        about = approval.fingerprint
                        put = self._questions.put("approve", made.peer, made.act, about, approval.id)
                        return ask_by_result(message, put)
                    return await self._decided(
                        made, approval, await ask_now(made.ctx, message, made.peer.gone)
                    )
        runtime = Runtime(self._engine, made.peer.principal)
        return await runtime.wait_for(outcome, settings.mcp.wait_seconds)

    async def _decided(self, made: "_Asked", approval: Approval, said: Said) -> Outcome:
        """The operator's own word, over the client that he declared to be himself."""
        database, settings = self._engine.state.database, self._engine.seen.settings
        if not _is_his(made.peer, settings):  # it may have been taken back meanwhile
            said = "nothing"
        if said == "nothing":
            reasons = approval.shown.reasons if approval.shown is not None else ()
            return Pending(
                call_id=approval.call_id,
                approval_id=approval.id,
                reasons=reasons,
                expires_at=approval.expires_at,
            )
        word = await to_thread.run_sync(
            partial(
                decide,
                database,
                approval.id,
                by=Decider(
                    id=owner(),
                    kind="human",
                    rights=ROLES["owner"],
                    over=made.peer.connection,
                    chats=settings.telegram.chats_of(owner()),
                ),
                decision="approve" if said == "yes" else "deny",
                four_eyes=settings.approvals.four_eyes,
                payloads=settings.audit.payloads,
            )
        )
        if isinstance(word, Undecided):
            return Refused(call_id=approval.call_id, code="approval_required", reasons=(word.reason,))
        if said == "no":
            return Refused(
                call_id=approval.call_id, code="approval_denied", reasons=("the operator said no",)
            )
        return await self._engine.resume(approval.id, of=made.peer.principal.id)

    async def _run(self, made: "_Asked", *, question: str = "", turn: int | None = None) -> Outcome:
        """Through the gate. `turn` is the person's, where it is known: the second comes after he was asked."""
        arguments = {**made.arguments, FLAG: True} if turn == 2 else made.arguments
        return await self._engine.run(made.call(arguments, question=question, turn=turn))

    async def _with_progress(self, ctx: "Context", work: Callable[[], Awaitable[_T]]) -> _T:
        """Say every second that it still runs, to who wants to hear it. Who goes away meanwhile ends it."""
        if (ctx.meta or {}).get("progress_token") is None:
            return await work()

        async def beat() -> None:
            seconds = 0
            while True:
                await anyio.sleep(_BEAT_SECONDS)
                seconds += 1
                await ctx.session.report_progress(float(seconds), None, f"under way for {seconds} s")

        made: list[_T] = []
        with as_raised():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(beat)
                made.append(await work())
                tasks.cancel_scope.cancel()
        return made[0]


@final
class _Asked:
    """One request, as far as it is understood."""

    def __init__(
        self, *, ctx: "Context", peer: Peer, name: str, tool: Tool | None, arguments: dict[str, Json]
    ) -> None:
        self.ctx = ctx
        self.peer = peer
        self.name = name
        self.tool = tool
        self.arguments = arguments

    @property
    def subject(self) -> str:
        """The skill that it is about, as it was named; empty where it is about none."""
        given = self.arguments.get(self.tool.subject) if self.tool is not None and self.tool.subject else ""
        return given if isinstance(given, str) else ""

    def call(
        self, arguments: dict[str, Json] | None = None, *, question: str = "", turn: int | None = None
    ) -> Call:
        """What the gate is asked."""
        return Call(
            id=f"call_{secrets.token_hex(12)}",
            principal=self.peer.principal,
            tool=self.name,
            arguments=self.arguments if arguments is None else arguments,
            surroundings=Surroundings(
                channel="mcp", session=self.peer.connection, call_id=question or None, turn=turn
            ),
            waits=True,
        )

    @property
    def act(self) -> str:
        """Raises MCPError where the arguments are nothing that could run."""
        try:
            return act_of(self.name, self.arguments)
        except ValueError:
            raise MCPError(types.INVALID_PARAMS, "the arguments are no strict JSON object") from None


def _confirmation(made: _Asked, refused: Refused) -> str:
    """Our words first, then what will run, then the skill's own words, marked as such."""
    skill = made.tool.skill if made.tool is not None else ""
    whose = f"The skill {quoted(skill)} says" if skill else "The tool says"
    return "\n".join(
        (
            f"{made.peer.principal.id} wants to call {made.name}, and you are to confirm it first.",
            "With exactly these arguments:",
            laid_out(made.arguments),
            *(f"! {one_line(each)}" for each in misleading(made.arguments)),
            f"{whose} (its own words): {quoted(refused.prompt)}",
        )
    )


def _not_shown(refused: Refused, long: int) -> Refused:
    """Nobody says yes to what he was not shown whole, and a model's word counts for nothing here: asking again would be in vain."""
    return Refused(
        call_id=refused.call_id,
        code="not_runnable",
        reasons=(
            f"a person has to confirm it, and the question has {long:,} characters; at most {LONGEST:,} can be shown here",
        ),
        remedy="Do it in smaller parts, or tell the user to do it at the terminal with `metier call`",
    )


def _is_about(question: Question, approval: Approval, peer: Peer) -> bool:
    return approval.principal == peer.principal.id and approval.fingerprint == question.about != ""


def _is_his(peer: Peer, settings: Settings) -> bool:
    """Whether what is answered over this connection is the owner's word: he declared it so, it acts for him and nobody else, and the
    token that it came with, where it came with one, goes so far."""
    principal = peer.principal
    return (
        principal.id in settings.mcp.own_clients
        and principal.on_behalf_of == owner()
        and (not principal.token or (principal.scopes is not None and APPROVE in principal.scopes))
    )


def _request(approval: Approval) -> str:
    """Everything about it, as at the terminal, but for how one decides there: here a form is answered."""
    told = lines(approval, time.time(), commands=False)
    return "\n".join((*told, "With Go ahead you approve exactly this, in your own name."))


def _needs_another(approval: Approval, settings: Settings) -> bool:
    """Whether the owner's own word could not count, so that he is not asked for it in vain."""
    return settings.approvals.four_eyes or (approval.shown is not None and approval.shown.four_eyes)
