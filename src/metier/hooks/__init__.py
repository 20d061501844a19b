"""Hooks of skills: how one is called with an event (`run`), which there are (`installed`), and when they are fired (`firing`)."""

from metier.hooks.bootstrap import Added, Bootstrap
from metier.hooks.firing import Hooks
from metier.hooks.happening import is_told
from metier.hooks.run import LIMITS, MOST_OUTPUT, NAME, run_hook
from metier.hooks.together import together

__all__ = [
    "LIMITS",
    "MOST_OUTPUT",
    "NAME",
    "Added",
    "Bootstrap",
    "Hooks",
    "is_told",
    "run_hook",
    "together",
]
