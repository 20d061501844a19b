"""The contract of a sandbox, to be tried on yours.

Say how your backend is opened (`backend.Backend`), then have every one of `kit.BEHAVIOURS` verified on it:

    @pytest.mark.parametrize("behaviour", kit.BEHAVIOURS, ids=str)
    def test_my_sandbox(behaviour, tmp_path):
        anyio.run(kit.verify, behaviour, my_backend(), str(tmp_path))

Each attack is first run bare, outside, where it must succeed; a behaviour that was to do so and did not fails. After
each behaviour nothing may be left.
METIER_TORTURE=1 tries more often.
"""
