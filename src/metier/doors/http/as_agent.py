"""A call that the owner has made as an agent of his would make it: he is asked about nothing that he does himself, and this way he sees
what an agent meets."""

import secrets
from typing import Final

from msgspec.structs import replace
from starlette.responses import Response

from metier.doors.http.endpoint import Asking
from metier.doors.http.idempotency import key_in
from metier.doors.http.making import answer, while_there
from metier.doors.http.problem import Refusal
from metier.doors.http.room import runs_for
from metier.model.call import Surroundings
from metier.model.digest import Json
from metier.runtime import Runtime
from metier.runtime.once import call_once

CONSOLE: Final = "agent:console"


async def made_as_agent(
    asking: Asking, tool: str, arguments: dict[str, Json], wait: float, unattended: bool
) -> Response:
    """Call `tool` as `agent:console`, which acts for the owner and can be revoked like any other agent.

    Raises:
        Refusal: for anybody but the owner, and with a key: what is kept under it belongs to who sent it.
    """
    identity = asking.identity
    if identity.principal.id != asking.serving.gatekeeper.owner:
        raise Refusal(
            403,
            "forbidden",
            "`as_agent` is for the owner",
            remedy="Have an agent of your own registered with `metier principals add`, and call with a token of it",
        )
    if key_in(asking.request) is not None:
        raise Refusal(409, "bad_idempotency_key", "`as_agent` takes no key", remedy="Leave one of them out")
    agent = replace(
        identity.principal,
        id=CONSOLE,
        kind="agent",
        on_behalf_of=identity.principal.id,
        roles=frozenset({"agent"}),
    )
    # Not the session that he came with: who asked over a connection cannot answer over it.
    runtime = Runtime(asking.serving.engine, agent, Surroundings(session=f"console:{identity.ref}"))
    id = f"call_{secrets.token_hex(12)}"
    runs_for(asking.request.scope, id)
    return answer(
        await while_there(
            asking.request,
            lambda: call_once(runtime, tool, arguments, id=id, wait=wait, unattended=unattended),
        )
    )
