"""The one origin that Metier itself may ask where no skill may go: exactly that one, and no way from there to another."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

import metier
from loopback import PUBLIC, Authority, Listener, World, quick, reply
from metier.errors import ConfigError
from metier.sandbox.egress import Egress
from metier.sandbox.own_origin import read_own, why_not
from metier.sandbox.pinned import Raw
from metier.sandbox.reply import Answer, Denied, Failed, Reply, Violation
from metier.sandbox.secret import MASK, SecretRef

Listen = Callable[..., Listener]
Kind = TypeVar("Kind")

VALUE = "tok-9f27-gateway"
BEARER = {"Authorization": SecretRef(name="token", before="Bearer ")}


def reveal(name: str) -> str | None:
    return VALUE if name == "token" else None


def own(origin: str, **more: Any) -> Egress:
    return Egress(hosts=frozenset(), own=origin, **{"limits": quick(), "reveal": reveal, **more})


def ask(egress: Egress, *urls: str, **more: Any) -> list[Reply]:
    async def main() -> list[Reply]:
        async with egress:
            return [await egress.request("POST", url, body=b"{}", **more) for url in urls]

    return anyio.run(main)


def one(egress: Egress, url: str, kind: type[Kind], **more: Any) -> Kind:
    (made,) = ask(egress, url, **more)
    assert isinstance(made, kind), made
    return made


def here(listener: Listener) -> str:
    return f"http://127.0.0.1:{listener.port}"


def test_net_30_the_configured_origin_on_this_machine_is_asked_with_its_token(listen: Listen) -> None:
    listener = listen(reply(body=f"you said {VALUE}".encode()))
    answer = one(own(here(listener)), f"{here(listener)}/v1/x", Answer, secrets=BEARER)
    assert (answer.status, answer.body.decode()) == (200, f"you said {MASK}")
    (asked,) = listener.asked
    assert (asked.line, asked.headers["authorization"]) == ("POST /v1/x HTTP/1.1", f"Bearer {VALUE}")


def test_net_30_no_skill_is_granted_that_origin_or_reaches_it(world: World, listen: Listen) -> None:
    listener = listen()
    with pytest.raises(ConfigError, match="no skill may reach"):
        Egress(hosts=frozenset({here(listener)}))
    one(world.egress("http://a.example"), f"{here(listener)}/", Violation)
    assert listener.connections == 0
    one(own(here(listener)), f"{here(listener)}/", Answer)


def test_net_31_what_is_configured_and_what_is_granted_never_meet_in_one_egress() -> None:
    with pytest.raises(ValueError, match="two Egresses"):
        Egress(hosts=frozenset({"a.example"}), own="http://127.0.0.1:1")


@pytest.mark.parametrize(
    "other",
    [
        "http://127.0.0.1:{there}/",
        "http://127.0.0.2:{here}/",
        "https://127.0.0.1:{here}/",
        "http://[::1]:{here}/",
        "http://localhost:{here}/",
        "http://2130706433:{here}/",
        "http://a@127.0.0.1:{here}/",
    ],
)
def test_net_21_another_port_host_or_scheme_is_another_origin(listen: Listen, other: str) -> None:
    listener, neighbour = listen(), listen()
    egress = own(here(listener))
    said = ask(egress, other.format(here=listener.port, there=neighbour.port), secrets=BEARER)
    assert [type(each) for each in said] in ([Violation], [Failed])
    assert (listener.connections, neighbour.connections) == (0, 0)
    one(egress, f"{here(listener)}/", Answer, secrets=BEARER)


def test_net_31_an_egress_of_our_own_reaches_nothing_public(world: World, listen: Listen) -> None:
    listener = listen()
    world.put("a.example", listener)
    egress = own("http://127.0.0.1:1", resolver=world.resolve, connect=world.connect)
    one(egress, "http://a.example/", Denied)
    assert (world.lookups, world.dialled, listener.connections) == ([], [], 0)
    one(world.egress("http://a.example"), "http://a.example/", Answer)


def test_net_08_the_configured_name_may_lead_to_this_machine_and_no_other_name_may(
    world: World, listen: Listen
) -> None:
    listener = listen()
    world.names = {"gate.example": [["127.0.0.1"]], "other.example": [["127.0.0.1"]]}
    gate, other = (f"http://{name}.example:{listener.port}" for name in ("gate", "other"))
    seen = Egress(hosts=frozenset({other}), limits=quick(), resolver=world.resolve)
    assert one(seen, f"{other}/", Violation).cause == "lookup"
    assert isinstance(ask(own(gate, resolver=world.resolve), f"{other}/")[0], Denied)
    assert listener.connections == 0
    one(own(gate, resolver=world.resolve), f"{gate}/", Answer, secrets=BEARER)
    assert listener.asked[0].headers["host"] == gate.removeprefix("http://")


@pytest.mark.parametrize(
    "address", ["10.0.0.5", "192.168.1.9", PUBLIC, "169.254.169.254", "::ffff:127.0.0.1"]
)
def test_net_08_without_tls_the_configured_name_leads_to_this_machine_or_nothing_is_sent(
    world: World, listen: Listen, address: str
) -> None:
    world.places = {address: listen().port, "127.0.0.1": listen().port}
    for answers, kind in (
        (["127.0.0.1"], Answer),
        ([address], Violation),
        (["127.0.0.1", address], Violation),
    ):
        world.names, world.dialled = {"gate.example": [answers]}, []
        egress = own("http://gate.example:1", resolver=world.resolve, connect=world.connect)
        one(egress, "http://gate.example:1/", kind, secrets=BEARER)
        assert bool(world.dialled) == (kind is Answer)


def test_net_09_a_configured_name_that_changes_its_address_changes_nothing(
    world: World, listen: Listen
) -> None:
    listener = listen(reply(Connection="close"))  # one request a connection
    world.names = {"gate.example": [["127.0.0.1"], ["169.254.169.254"]]}
    world.places = {"127.0.0.1": listener.port}
    egress = own("http://gate.example:1", resolver=world.resolve, connect=world.connect)
    said = ask(egress, *["http://gate.example:1/"] * 3)
    assert [type(each) for each in said] == [Answer] * 3
    assert (world.lookups, set(world.dialled)) == (["gate.example"], {("127.0.0.1", 1)})


def test_localhost_is_this_machine_without_asking_anybody(world: World, listen: Listen) -> None:
    listener = listen()
    origin = f"http://localhost:{listener.port}"
    one(own(origin, resolver=world.resolve), f"{origin}/", Answer)
    assert world.lookups == []


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("to", ["http://169.254.169.254/latest", "/elsewhere", "https://a.example/"])
def test_net_11_the_configured_origin_sends_nobody_on(listen: Listen, status: str, to: str) -> None:
    listener = listen(reply(status, b"", Location=to))
    failed = one(own(here(listener)), f"{here(listener)}/", Failed, secrets=BEARER)
    assert failed.code == "redirect_refused"
    assert len(listener.asked) == 1


def test_net_11_nobody_is_sent_on_to_the_configured_origin(world: World, listen: Listen) -> None:
    gateway = listen()
    world.put("a.example", listen(reply("307 Temporary", b"", Location=f"{here(gateway)}/v1/x")))
    one(world.egress("http://a.example"), "http://a.example/", Violation)
    assert gateway.connections == 0
    once = reply("307 Temporary", b"", Location="/once")
    elsewhere = listen(lambda asked: once if asked.target == "/" else reply())
    world.put("b.example", elsewhere)
    followed = one(world.egress("http://b.example"), "http://b.example/", Answer)
    assert followed.redirects == 1, "control: where nothing stands against it, it is followed"


def test_net_34_over_tls_it_may_lie_at_home_and_its_certificate_is_checked(
    world: World, listen: Listen, authority: Authority
) -> None:
    world.names = {"gate.example": [["192.168.1.9"]]}
    ends: list[type] = []
    for tls in (authority.server("gate.example"), authority.server("gate.example", self_signed=True)):
        world.places = {"192.168.1.9": listen(tls=tls).port}
        egress = own(
            "https://gate.example",
            resolver=world.resolve,
            connect=world.connect,
            extra_roots=authority.roots,
        )
        ends += [type(each) for each in ask(egress, "https://gate.example/", secrets=BEARER)]
    assert ends == [Answer, Failed]


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "fd00:ec2::254",
        "fe80::1",
        "0.0.0.1",
        "::ffff:7f00:1",
    ],
)
def test_net_07_nothing_of_anybodys_lies_where_clouds_keep_their_metadata(address: str) -> None:
    judged = why_not(read_own("https://gate.example"))
    assert judged(address)
    assert [judged(each) for each in ("127.0.0.1", "::1", "10.0.0.1", "100.64.0.1", "fd00::1", PUBLIC)] == [
        None
    ] * 6
    spelled = f"[{address}]" if ":" in address else address
    for scheme in ("http", "https"):
        with pytest.raises(ConfigError):
            read_own(f"{scheme}://{spelled}")


@pytest.mark.parametrize(
    "written",
    [
        *(
            "",
            "127.0.0.1:18789",
            "ws://127.0.0.1:18789",
            "http://127.0.0.1:18789/",
            "http://127.0.0.1:18789/v1",
        ),
        *(
            "http://127.1:18789",
            "http://me@127.0.0.1:1",
            "http://metadata.google.internal",
            "http://10.0.0.1:80",
        ),
        *(
            "http://127.0.0.1:18789?x",
            "http://127.0.0.1:0",
            "http://[::ffff:127.0.0.1]:1",
            "http://93.184.216.34",
        ),
    ],
)
def test_what_is_no_origin_or_lies_elsewhere_without_tls_is_refused_where_it_is_read(written: str) -> None:
    with pytest.raises(ConfigError):
        read_own(written)
    assert read_own("http://127.0.0.1:18789").origin == "http://127.0.0.1:18789"


def test_net_30_a_connection_for_a_program_that_speaks_tls_goes_to_that_very_origin(listen: Listen) -> None:
    """An operator's own program; without TLS there is no such way, also where http is configured."""
    listener, neighbour = listen(), listen()
    place, other = (f"127.0.0.1:{each.port}" for each in (listener, neighbour))

    async def reached(origin: str, place: str) -> bool:
        async with own(origin) as egress:
            raw = await egress.connect(place)
            if isinstance(raw, Raw):
                await raw.close()
            return isinstance(raw, Raw)

    tries = ((f"https://{place}", place), (f"https://{place}", other), (f"http://{place}", place))
    assert [anyio.run(reached, *each) for each in tries] == [True, False, False]
    assert neighbour.connections == 0


def test_only_what_is_the_operators_own_is_made_with_an_origin_of_its_own() -> None:
    """What makes an Egress for a skill cannot even say it; what asks the operator's gateway, model and programs does."""
    source = Path(metier.__file__).parent
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and any(keyword.arg == "own" for keyword in node.keywords)
        and ast.unparse(node.func).rpartition(".")[2] in ("Egress", "make", "_make")
    }
    assert "host/gateway_client.py" in found
    assert found <= {
        "doors/http/oidc_provider.py",
        "doors/telegram/api.py",
        "host/gateway_client.py",
        "host/model_client.py",
        "kernel/announce_webhook.py",
        "sandbox/way_out.py",
    }
