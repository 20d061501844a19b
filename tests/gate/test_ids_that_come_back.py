"""An id that comes back may be somebody else: it brings back nobody who acted for it, and nothing they were granted."""

from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from gatehouse import OWNER
from metier.model.call import Call, Principal
from metier.model.outcome import Completed, Outcome, Pending, Refused
from metier.model.role import Registered
from metier.pipeline import run
from metier.record.approvals import find
from metier.record.deciding import Undecided
from metier.record.principals import add_principal, revoke_principal
from metier.record.standing import proposed_grant
from metier.record.verify import verify
from parlour import Parlour, tool


@pytest.mark.parametrize("behind", [None, "agent:mail"])
def test_who_comes_back_under_an_old_id_brings_nobody_back_and_no_grant_of_theirs(
    tmp_path: Path, behind: str | None
) -> None:
    room = Parlour(tmp_path, tool(risk="medium"))
    room.add("human:bob", "operator")
    mail = Registered(id="agent:mail", kind="agent", on_behalf_of="human:bob", roles=frozenset({"agent"}))
    assert add_principal(room.database, mail, by=OWNER, owner=OWNER) == ""

    def called() -> Outcome:
        who = Principal(id="agent:mail", kind="agent")
        if behind:
            who = Principal(id="trigger:x", kind="trigger", on_behalf_of=behind)
        call = Call(id=f"call_{uuid4().hex}", principal=who, tool="send", arguments={"to": "a", "text": "b"})
        return anyio.run(run, call, room.house)

    asked = called()
    assert isinstance(asked, Pending)
    found = find(room.database, asked.approval_id)
    assert found is not None
    grant = proposed_grant(found.shown, "always", approval=asked.approval_id, by=OWNER)
    assert not isinstance(room.decided(asked, scope="always", grant=grant), Undecided)
    assert isinstance(called(), Completed), "the control: the grant answers"
    assert revoke_principal(room.database, "human:bob", by=OWNER, owner=OWNER) == ""
    assert isinstance(called(), Refused)
    room.add("human:bob", "operator")
    assert isinstance(called(), Refused), "nobody let this agent in again"
    assert add_principal(room.database, mail, by=OWNER, owner=OWNER) == ""
    assert isinstance(called(), Pending), "and what it was granted is over"
    assert verify(room.database.path).ok
