"""What goes wrong in a task group comes out as it was raised, where it is one thing."""

import anyio
import pytest

from metier.runtime.as_raised import as_raised


def test_one_thing_that_was_raised_comes_out_as_it_was_however_deep_it_lay() -> None:
    async def main() -> None:
        with as_raised():
            async with anyio.create_task_group(), anyio.create_task_group():
                raise LookupError("this very one")

    with pytest.raises(LookupError, match="this very one"):
        anyio.run(main)


def test_several_things_stay_together_and_none_is_lost() -> None:
    both = ExceptionGroup("two", [LookupError("one"), OSError("another")])
    with pytest.raises(ExceptionGroup) as caught, as_raised():
        raise both
    assert caught.value is both
