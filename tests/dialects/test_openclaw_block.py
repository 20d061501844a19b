"""The openclaw block: its normal form, and what a skill may touch because of it."""

import json
import time
from typing import Any

import pytest

from metier.dialects.compiled import Compiled
from metier.dialects.install import installers, normal_spec
from metier.dialects.openclaw import normal_form
from metier.dialects.skill_md import compile_skill
from metier.dialects.web_address import web_address
from metier.model.permission import BASE_DIR
from metier.model.requirement import Installer


def _compiled(block: Any, namespace: str = "openclaw") -> Compiled:
    metadata = json.dumps({namespace: block})
    return compile_skill(f"---\nname: x\ndescription: d\nmetadata: {metadata}\n---\n".encode(), folder="x")


def test_lists_may_be_written_with_commas_and_always_come_in_four() -> None:
    assert normal_form(
        {"requires": {"bins": "jq, curl,", "env": ["A", 1, True, None, " "]}, "os": "linux,darwin"}
    ) == {
        "requires": {"bins": ["jq", "curl"], "anyBins": [], "env": ["A", "1", "true", "null"], "config": []},
        "os": ["linux", "darwin"],
    }


def test_what_openclaw_would_drop_is_kept_beside() -> None:
    normal = normal_form(
        {
            "always": "yes",
            "emoji": 5,
            "skillKey": "",
            "cliHelp": "x --help",
            "requires": {"bins": ["a"], "python": ">=3"},
            "install": [{"kind": "apt", "package": "a"}, {"kind": "brew", "formula": "a", "tap": "t"}],
        }
    )
    assert normal == {
        "requires": {"bins": ["a"], "anyBins": [], "env": [], "config": []},
        "install": [{"kind": "brew", "formula": "a"}],
        "extra": {
            "always": "yes",
            "emoji": 5,
            "cliHelp": "x --help",
            "requires": {"python": ">=3"},
            "install": [{"kind": "apt", "package": "a"}],
            "installFields": {"1": {"tap": "t"}},
        },
    }


def test_an_empty_block_is_a_block_without_extra() -> None:
    assert _compiled({}).metadata == {}
    assert _compiled([]).metadata == {}
    assert _compiled(None).metadata is None
    assert _compiled({"os": [], "install": []}).metadata == {}


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"kind": " Brew ", "formula": " a/b/c "}, {"kind": "brew", "formula": "a/b/c"}),
        ({"type": "brew", "cask": "a", "bins": "x,y"}, {"kind": "brew", "formula": "a", "bins": ["x", "y"]}),
        ({"kind": "brew", "formula": "../x"}, None),
        ({"kind": "brew", "formula": "-x"}, None),
        ({"kind": "brew"}, None),
        ({"kind": "node", "package": "@a/b@1.2.3+x"}, {"kind": "node", "package": "@a/b@1.2.3+x"}),
        ({"kind": "node", "package": "a@latest"}, {"kind": "node", "package": "a@latest"}),
        ({"kind": "node", "package": "a@^1.0.0"}, None),
        ({"kind": "node", "package": "git+https://x/y"}, None),
        ({"kind": "node", "package": "a b"}, None),
        ({"kind": "npm", "package": "a"}, None),
        ({"kind": "go", "module": "x.y/z@latest"}, {"kind": "go", "module": "x.y/z@latest"}),
        ({"kind": "go", "module": "https://x.y"}, None),
        ({"kind": "uv", "package": "a[b]>=1"}, {"kind": "uv", "package": "a[b]>=1"}),
        ({"kind": "uv", "package": "a; rm"}, None),
        ({"kind": "download", "url": "https://X.y"}, {"kind": "download", "url": "https://x.y/"}),
        ({"kind": "download", "url": "file:///etc/passwd"}, None),
        ({"kind": "download", "url": "https://x.y", "sha256": "short"}, None),
        ({"kind": "download", "url": "https://x.y", "sha256": None}, None),
        (
            {
                "kind": "download",
                "url": "https://x.y/",
                "sha256": "AB" * 32,
                "extract": True,
                "stripComponents": 1,
            },
            {
                "kind": "download",
                "url": "https://x.y/",
                "sha256": "ab" * 32,
                "extract": True,
                "stripComponents": 1,
            },
        ),
        ("brew install x", None),
        (None, None),
    ],
)
def test_install_specs_are_kept_or_dropped_as_openclaw_does(spec: Any, kept: Any) -> None:
    assert normal_spec(spec) == kept


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("HTTPS://User@Ex.com:443/a/../b/./c?q='x#\"f", "https://User@ex.com/b/c?q=%27x#%22f"),
        ("http:x.com\\a", "http://x.com/a"),
        ("https://x.com/{v}/ü", "https://x.com/%7Bv%7D/%C3%BC"),
        ("https://münchen.de", "https://xn--mnchen-3ya.de/"),
        ("http://1.2.3.4:8080", "http://1.2.3.4:8080/"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("http://256.1.1.1/", None),
        ("https://", None),
        ("https://x.com:99999", None),
        ("https://a b.com", None),
        ("https://x%2fy.com", None),
        ("ftp://x.com", None),
        ("javascript:alert(1)", None),
        ("https://[zz]/", None),
        ("https://x.com:" + "9" * 5_000, None),
    ],
)
def test_a_web_address_has_one_spelling(written: str, address: str | None) -> None:
    assert web_address(written) == address


@pytest.mark.parametrize(
    "host",
    [
        "e" + "\u0301\u0323" * 30_000,
        "é" * 100_000,
        "é." * 60_000,
        "%c3%a9" * 20_000,
        "".join(chr(0x4E00 + n) for n in range(20_000)),
    ],
    ids=["marks", "one label", "labels", "escapes", "han"],
)
def test_res_14_a_host_beyond_the_lengths_of_the_net_costs_no_time(host: str) -> None:
    started = time.process_time()
    assert web_address(f"https://{host}/x") is None
    assert time.process_time() - started < 0.5


def test_hosts_up_to_the_lengths_of_the_net_have_their_spelling() -> None:
    assert web_address("https://" + "é" * 40 + ".de") is not None
    assert web_address("https://" + "é" * 64 + ".de") is None
    assert web_address("https://" + "\ufdfa" * 10 + ".de") is None, "ten signs that stand for 180 letters"
    assert web_address("https://" + "a" * 300 + ".de") is not None, "as written, it is short work"


def test_every_way_to_install_is_shown_to_people() -> None:
    assert installers([{"kind": "apt", "package": "jq", "bins": ["jq"], "os": "linux", "note": "n"}]) == (
        Installer(kind="apt", target="jq", binaries=("jq",), os=("linux",), details={"note": "n"}),
    )
    assert installers("curl x | sh") == (Installer(kind="shell", target="curl x | sh"),)
    assert installers({"brew": "jq", "pip": "jq"}) == (
        Installer(kind="brew", target="jq"),
        Installer(kind="pip", target="jq"),
    )
    assert installers({"kind": "shell", "command": ["a", "b"], "label": "L"}) == (
        Installer(kind="shell", target="a b", label="L"),
    )
    assert installers([None, 5, "", {}, []]) == ()


@pytest.mark.parametrize(
    ("spec", "target"),
    [
        ({"kind": "brew", "formula": "gh"}, "gh"),
        ({"kind": "apt", "package": "gh"}, "gh"),
        ({"kind": "go", "module": "example.com/gh/cmd/gh@latest"}, "example.com/gh/cmd/gh@latest"),
    ],
)
def test_an_installer_names_its_formula_package_or_module(spec: dict[str, str], target: str) -> None:
    skill = _compiled({"install": [{"id": "one", "label": "Get it", "bins": ["gh"], **spec}]}).skill
    assert skill is not None
    assert skill.installers == (
        Installer(kind=spec["kind"], target=target, label="Get it", binaries=("gh",), details={"id": "one"}),
    )


def test_what_is_declared_becomes_what_may_be_touched() -> None:
    skill = _compiled(
        {"requires": {"bins": ["jq"], "anyBins": ["g++", "7z"], "env": ["A_B"]}, "primaryEnv": "TOKEN"}
    ).skill
    assert skill is not None
    assert skill.permissions.plain() == {
        "binaries": ["7z", "g++", "jq"],
        "env": ["A_B", "TOKEN"],
        "reads": [BASE_DIR],
        "secrets": ["TOKEN"],
    }


@pytest.mark.parametrize(
    "name", ["*", "**", "a/b", "../sh", ".", "..", "a b", "a;b", "$(x)", "a\u200bb", "-rf", "a\nb"]
)
def test_what_is_no_plain_name_is_not_granted(name: str) -> None:
    for block in ({"requires": {"bins": [name]}}, {"requires": {"env": [name]}}, {"primaryEnv": name}):
        compiled = _compiled(block)
        assert compiled.skill is not None
        assert compiled.skill.permissions.plain() == {"reads": [BASE_DIR]}
        assert "not_granted" in [found.code for found in compiled.diagnostics]


@pytest.mark.parametrize("namespace", ["openclaw", "clawdbot", "clawdis", "moltbot"])
def test_all_four_names_of_the_block_are_read(namespace: str) -> None:
    compiled = _compiled({"requires": {"bins": ["jq"]}, "skillKey": "k", "homepage": "https://h"}, namespace)
    assert compiled.dialect == "openclaw"
    assert compiled.skill is not None
    assert compiled.skill.requirements.binaries == ("jq",)
    assert (compiled.skill.key, compiled.skill.homepage) == ("k", "https://h")


def test_of_several_blocks_the_newest_name_counts_and_the_others_are_kept() -> None:
    data = b'---\nname: x\ndescription: d\nmetadata: {"moltbot": {"emoji": "m"}, "clawdbot": {"emoji": "c"}}\n---\n'
    skill = compile_skill(data, folder="x").skill
    assert skill is not None
    assert skill.emoji == "c"
    assert skill.extra["metadata"] == {"moltbot": {"emoji": "m"}}
