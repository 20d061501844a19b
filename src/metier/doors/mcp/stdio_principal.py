"""Who speaks over standard input and output.

Whoever can start `metier mcp` is the local user, who could as well use the command line: so the built-in `agent:mcp` acts for the
owner, as `agent:cli` does, and is bound by the same ladder. `--as` names another agent that the operator registered, so that rules,
grants and the record tell clients apart; a token in `METIER_TOKEN` bounds it by its scopes. It is never a human: what types at
this end is a program, and a human's word would count for more than it may.
"""

from metier.catalog.here import owner
from metier.errors import ConfigError
from metier.gate.principals import by_token, rebuilt
from metier.model.call import Principal
from metier.model.text import one_line
from metier.record.database import Database
from metier.record.principals import registered_in
from metier.record.tokens import tokens_in


def principal_of(database: Database, id: str, token: str) -> Principal:
    """The agent of this id, or the one that `token` belongs to, where there is one.

    Raises:
        ConfigError: when there is none that may do anything.
        StateError: when the state cannot be read.
    """
    with database.reading() as connection:
        registered = registered_in(connection)
        found = (
            by_token(token, tokens_in(connection), registered, owner())
            if token
            else rebuilt(id, "", registered, owner())
        )
    if found is None:
        raise ConfigError(
            "the token in METIER_TOKEN lets nobody in: it is none, is over, was revoked, or its principal was",
            remedy="`metier tokens list` shows which there are, `metier tokens add` makes another",
        )
    if isinstance(found, str):
        raise ConfigError(found, remedy="`metier principals list` shows who is registered")
    if found.kind != "agent":
        raise ConfigError(
            f"{one_line(found.id, 80)} is no agent, and what speaks MCP is always one",
            remedy="Register one with `metier principals add agent:NAME`, and name it with --as",
        )
    return found
