"""With four_eyes nobody approves what a message of his own set off, whichever way he says it."""

from msgspec.structs import replace

from approval_kit import approve, ask, wanted
from metier.config.telegram import TelegramSettings
from metier.gate.in_words import lines
from metier.model.approval import Approval
from metier.model.call import AuthorizedCall, Cause
from metier.model.role import ROLES
from metier.record.approvals import find
from metier.record.database import Database
from metier.record.deciding import Decider, Undecided, decide

CONFIGURED = TelegramSettings(approvers={"1002": "human:ben", "1003": "human:cal", "2002": "human:ben"})


def person(name: str) -> Decider:
    rights = ROLES["approver"]
    return Decider(
        id=f"human:{name}", kind="human", rights=rights, chats=CONFIGURED.chats_of(f"human:{name}")
    )


def set_off(chat: str) -> AuthorizedCall:
    authorized = wanted()
    call = replace(authorized.valid.call, cause=Cause(firings=2, root="the chat", chat=chat))
    return replace(authorized, valid=replace(authorized.valid, call=call))


def test_apr_18_with_four_eyes_nobody_approves_what_his_own_message_set_off(database: Database) -> None:
    for chat in ("telegram/1002", "telegram/2002"):
        approval = ask(database, set_off(chat))
        said = decide(database, approval, by=person("ben"), decision="approve", four_eyes=True)
        assert isinstance(said, Undecided)
        assert said.code == "own_request"
        assert "a message of his own set it off" in said.reason
        approve(database, approval, by=person("cal"), four_eyes=True)


def test_without_four_eyes_he_may_and_saying_no_he_always_may(database: Database) -> None:
    approve(database, ask(database, set_off("telegram/1002")), by=person("ben"))
    other = ask(database, set_off("telegram/1002"))
    made = decide(database, other, by=person("ben"), decision="deny", four_eyes=True)
    assert isinstance(made, Approval)


def test_what_no_message_set_off_is_nobodys_own(database: Database) -> None:
    approve(database, ask(database, wanted()), by=person("ben"), four_eyes=True)


def test_whose_message_it_was_is_shown(database: Database) -> None:
    found = find(database, ask(database, set_off("telegram/1002")))
    assert found is not None
    assert "set off by     telegram/1002" in lines(found, 0.0)
