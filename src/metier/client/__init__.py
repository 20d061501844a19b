"""A small typed client for `metier serve`, with and without an event loop.

    with Client("http://127.0.0.1:8765", token=os.environ["METIER_TOKEN"]) as metier:
        outcome = metier.call("read_skill", {"name": "writing-skills"})

What the gate says about a call is a value here too; `ApiError` is for requests that were not done.
"""

from metier.client.asking import ApiError, CallState, Change, SkillShown
from metier.client.asynchronous import AsyncClient
from metier.client.blocking import Client

__all__ = ["ApiError", "AsyncClient", "CallState", "Change", "Client", "SkillShown"]
