"""The contract of a sandbox, to be tried on yours.

Say how your backend is opened (`Backend`), then have every one of `BEHAVIOURS` verified on it:

    @pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=str)
    def test_my_sandbox(behaviour, tmp_path):
        anyio.run(verify, behaviour, my_backend(), str(tmp_path))

Each attack is first run bare, outside, where it must succeed. After each behaviour nothing may be left.
METIER_TORTURE=1 tries more often.
"""

from metier.testing.sandbox_kit.backend import Backend, Gap, Opened
from metier.testing.sandbox_kit.behaviour import Behaviour
from metier.testing.sandbox_kit.bench import Bench, KitFailure
from metier.testing.sandbox_kit.guest import Bare, Guest, Prepared
from metier.testing.sandbox_kit.kit import BEHAVIOURS, NUMBERED, verify

__all__ = [
    "BEHAVIOURS",
    "NUMBERED",
    "Backend",
    "Bare",
    "Behaviour",
    "Bench",
    "Gap",
    "Guest",
    "KitFailure",
    "Opened",
    "Prepared",
    "verify",
]
