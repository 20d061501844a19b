"""`[python] packages`: what the operator installed for the Python code of skills."""

from pathlib import Path

from machine import Machine

CODE = """import teapot
try:
    open(teapot.__file__, "a")
except OSError as error:
    result = [teapot.LEAVES, type(error).__name__]
"""


def test_code_imports_configured_packages_and_cannot_change_them(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "m")
    packages = tmp_path / "packages"
    (packages / "teapot").mkdir(parents=True)
    (packages / "teapot/__init__.py").write_text("LEAVES = 'green'\n")
    file = machine.project / "code.py"
    file.write_text("import importlib.util\nresult = importlib.util.find_spec('teapot') is None\n")
    assert machine.json("run", "--json", str(file))["value"] is True
    file.write_text(CODE)
    (machine.home / ".metier").mkdir(exist_ok=True, mode=0o700)
    config = machine.home / ".metier/metier.toml"
    config.write_text(f'[python]\npackages = ["{packages}"]\n')
    config.chmod(0o600)
    value = machine.json("run", "--json", str(file))["value"]
    assert value[0] == "green"
    assert value[1] in ("OSError", "PermissionError")


def test_packages_that_cannot_be_given_refuse_the_run_and_say_where(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "m")
    file = machine.project / "code.py"
    file.write_text("result = 1\n")
    state = machine.home / ".metier"
    state.mkdir(exist_ok=True, mode=0o700)
    for folder, words in ((tmp_path / "nowhere", "is not there"), (state, "Metier's own state")):
        config = state / "metier.toml"
        config.write_text(f'[python]\npackages = ["{folder}"]\n')
        config.chmod(0o600)
        said = machine.metier("run", str(file), check=3).stderr
        assert words in said
        assert "[python] packages in metier.toml" in said
    config.write_text('[python]\npackages = ["packages"]\n')
    assert "is not absolute" in machine.metier("run", str(file), check=5).stderr
