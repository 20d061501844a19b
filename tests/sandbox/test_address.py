"""Which addresses are closed, however they are written."""

import ipaddress
import itertools
import socket
from collections.abc import Callable, Iterator

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopback import Listener
from metier.sandbox.address import canonical, disguised, why_closed, why_closed_name
from metier.sandbox.egress import Egress
from metier.sandbox.reply import Denied, Failed, Reply, Violation

LOOPBACK, METADATA = "127.0.0.1", "169.254.169.254"
TARGETS = (LOOPBACK, METADATA)
FULLWIDTH = str.maketrans("0123456789", "０１２３４５６７８９")
CIRCLED = str.maketrans("0123456789", "⓪①②③④⑤⑥⑦⑧⑨")
BOLD = str.maketrans("0123456789", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗")


def numbers(value: int) -> list[str]:
    return [f"{value}", f"0{value:o}", f"000{value:o}", f"0x{value:x}", f"0X{value:08X}"]


def numeric_spellings(address: str) -> Iterator[str]:
    """One to four numbers, each in every base, with the last one filling what is left."""
    octets = [int(part) for part in address.split(".")]
    for parts in range(1, 5):
        last = int.from_bytes(bytes(octets[parts - 1 :]))
        for written in itertools.product(*(numbers(each) for each in (*octets[: parts - 1], last))):
            if ".".join(written) != address:
                yield ".".join(written)
    yield from (f"{address}.", f"{int(ipaddress.IPv4Address(address)) + (1 << 32)}")
    yield ".".join(str(octet + 256) for octet in octets)


def unicode_spellings(address: str) -> Iterator[str]:
    whole = str(int(ipaddress.IPv4Address(address)))
    for digits in (FULLWIDTH, CIRCLED, BOLD):
        yield from (address.translate(digits), whole.translate(digits))
        for dot in "。．｡":
            yield address.translate(digits).replace(".", dot)
    for dot in "。．｡":
        yield address.replace(".", dot)


def ipv6_spellings(address: str) -> Iterator[str]:
    """IPv6 addresses that carry `address` inside."""
    octets = [int(part) for part in address.split(".")]
    high, low = f"{octets[0]:02x}{octets[1]:02x}", f"{octets[2]:02x}{octets[3]:02x}"
    for head in ("::ffff", "0:0:0:0:0:ffff", "::FFFF", "0000:0000:0000:0000:0000:ffff", "::ffff:0", "::"):
        joint = "" if head == "::" else ":"
        yield from (f"{head}{joint}{high}:{low}", f"{head}{joint}{address}")
    for head in ("64:ff9b::", "0064:ff9b:0:0:0:0:", "64:ff9b:1::", "64:ff9b:1:fffe::", "64:FF9B::"):
        yield from (f"{head}{high}:{low}", f"{head}{address}")
    yield from (f"2002:{high}:{low}::", f"2002:{high}:{low}::1", f"2002:{high}:{low}:1:2:3:4:5")
    hidden = ":".join(f"{int(each, 16) ^ 0xFFFF:x}" for each in (high, low))
    yield from (f"2001:0:0:0:0:0:{hidden}", f"2001::{hidden}", f"2001:0:4136:e378:8000:63bf:{hidden}")
    for head in ("fe80::5efe", "2600:1:2:3:0:5efe", "2600:1:2:3:200:5efe"):
        yield from (f"{head}:{high}:{low}", f"{head}:{address}")


def hosts(address: str) -> list[str]:
    escaped = "".join(f"%{ord(sign):02x}" for sign in address)
    inside = list(ipv6_spellings(address))
    made = [address, *numeric_spellings(address), *unicode_spellings(address), escaped]
    made += [f"[{each}]" for each in inside] + [f"[{each}%25eth0]" for each in inside]
    return list(dict.fromkeys(made))


def ask_all(urls: list[str]) -> list[Reply]:
    """As in production: nothing is put in the place of name server or network."""

    async def main() -> list[Reply]:
        async with Egress(hosts=frozenset({"api.example.com"})) as egress:
            return [await egress.request("GET", url) for url in urls]

    return anyio.run(main)


def test_at_least_three_hundred_spellings_of_each_target_are_tried() -> None:
    assert all(len(hosts(target)) > 300 for target in TARGETS)


def test_net_01_no_numeric_spelling_of_an_address_gets_out(listen: Callable[..., Listener]) -> None:
    listener = listen()
    urls = [f"http://{each}:{listener.port}/" for target in TARGETS for each in numeric_spellings(target)]
    replies = ask_all(urls)
    assert len(urls) > 1_500
    assert [url for url, reply in zip(urls, replies, strict=True) if not isinstance(reply, Violation)] == []
    assert listener.connections == 0


def test_net_01_a_check_of_the_text_alone_would_let_many_of_them_through(
    listen: Callable[..., Listener],
) -> None:
    listener = listen()
    fooled = [each for each in numeric_spellings(LOOPBACK) if not looks_private(each) and resolves_home(each)]
    assert len(fooled) > 500
    for host in ("127.1", "0x7f.1", "2130706433", "017700000001", "0"):
        before = listener.connections
        assert naive_get(f"http://{host}:{listener.port}/") == "hello", host
        assert listener.connections == before + 1


def looks_private(host: str) -> bool:
    """What many programs do: ask `ipaddress`, and take what it cannot read for a name."""
    try:
        return not ipaddress.ip_address(host.strip("[]")).is_global
    except ValueError:
        return host in ("localhost", "")


def resolves_home(host: str) -> bool:
    try:
        return socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM)[0][4][0] == LOOPBACK
    except OSError:
        return False


def naive_get(url: str) -> str:
    if looks_private(httpx2.URL(url).host):
        return "refused"
    return httpx2.get(url, follow_redirects=True, trust_env=False, timeout=5).text


def test_net_02_no_unicode_spelling_of_an_address_gets_out() -> None:
    urls = [f"http://{each}/" for target in TARGETS for each in unicode_spellings(target)]
    assert [
        url for url, reply in zip(urls, ask_all(urls), strict=True) if not isinstance(reply, Violation)
    ] == []
    assert resolves_home("①②⑦.⓪.⓪.①"), "name services do read such digits"


def test_net_03_a_mapped_address_is_as_closed_as_the_one_inside(listen: Callable[..., Listener]) -> None:
    listener = listen()
    for host in ("::ffff:127.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:ffff:7f00:1", "::FFFF:7F00:0001"):
        (reply,) = ask_all([f"http://[{host}]:{listener.port}/"])
        assert isinstance(reply, Violation)
        # Python 3.13 writes it with dots, those before it do not.
        assert ipaddress.ip_address(reply.address) == ipaddress.ip_address("::ffff:7f00:1")
        assert reply.cause == "request"
    assert listener.connections == 0
    assert httpx2.get(f"http://[::ffff:127.0.0.1]:{listener.port}/", trust_env=False).text == "hello"


def test_net_04_addresses_that_carry_an_ipv4_address_are_closed() -> None:
    urls = [f"https://[{each}]/" for target in TARGETS for each in ipv6_spellings(target)]
    assert len(urls) > 60
    assert [
        url for url, reply in zip(urls, ask_all(urls), strict=True) if not isinstance(reply, Violation)
    ] == []
    misjudged = [url for url in urls if ipaddress.ip_address(url[9:-2]).is_global]
    assert len(misjudged) > 10, "the standard library takes them for public"


@pytest.mark.parametrize(
    "block",
    [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
        "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32", "168.63.129.16/32",
        "::/128", "::1/128", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "fc00::/7", "fe80::/10",
        "fec0::/10", "ff00::/8", "4000::/3", "5f00::/16", "e000::/4",
    ],
)  # fmt: skip
def test_net_05_every_reserved_block_is_closed_from_end_to_end(block: str) -> None:
    network = ipaddress.ip_network(block)
    middle = network[network.num_addresses // 2]
    for address in (network[0], middle, network[-1]):
        assert why_closed(str(address)), address


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
     "168.63.129.15", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
     "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::200e", "2001:200::1", "2003::1"],
)  # fmt: skip
def test_the_public_addresses_beside_the_closed_blocks_are_open(address: str) -> None:
    assert why_closed(address) is None


def test_net_06_zones_are_refused() -> None:
    urls = [
        f"http://[{host}]/" for host in ("fe80::1%25eth0", "::1%1", "::1%251", "fe80::1%eth0", "2606::1%25x")
    ]
    replies = ask_all(urls)
    assert all(isinstance(reply, Violation | Failed) for reply in replies)
    assert isinstance(replies[0], Violation)
    assert why_closed("fe80::1%eth0") == "not a plain address"


def test_net_07_metadata_services_are_closed_by_address_and_by_name() -> None:
    hosts = [
        "169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.0.23", "169.254.42.42", "100.100.100.200",
        "192.0.0.192", "168.63.129.16", "[fd00:ec2::254]", "[fd20:ce::254]", "[fd00:42::42]", "[fe80::a9fe:a9fe]",
        "metadata.google.internal", "METADATA.google.internal.", "metadata", "metadata.goog", "instance-data",
        "metadata.tencentyun.com", "[::ffff:a9fe:a9fe]", "0xa9fea9fe", "2852039166",
    ]  # fmt: skip
    urls = [
        f"http://{host}{path}"
        for host in hosts
        for path in ("/latest/meta-data/", "/computeMetadata/v1/", "")
    ]
    assert len(urls) > 54
    assert [
        url for url, reply in zip(urls, ask_all(urls), strict=True) if not isinstance(reply, Violation)
    ] == []


def test_names_of_this_machine_are_closed_and_others_only_not_granted() -> None:
    for name in ("localhost", "LOCALHOST", "localhost.", "a.localhost", "localhost.localdomain"):
        (reply,) = ask_all([f"https://{name}/"])
        assert isinstance(reply, Violation), name
    (reply,) = ask_all(["https://localhost.example.com/"])
    assert isinstance(reply, Denied)
    assert why_closed_name("localhosts") is None


def test_a_number_that_means_a_public_address_is_a_bad_url_and_no_violation() -> None:
    assert disguised("0x01010101") == "1.1.1.1"
    (reply,) = ask_all(["https://0x01010101/"])
    assert isinstance(reply, Failed)
    assert reply.code == "invalid_url"


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_is_open_only_in_the_public_part(address: ipaddress.IPv6Address) -> None:
    if why_closed(str(address)) is None:
        assert address in ipaddress.IPv6Network("2000::/3")
        assert not address.is_private
        assert address.teredo is None
        assert address.sixtofour is None


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_that_the_standard_library_calls_private_is_closed(
    address: ipaddress.IPv4Address,
) -> None:
    if address.is_private or address.is_multicast or address.is_reserved or not address.is_global:
        assert why_closed(str(address))


@given(st.ip_addresses())
def test_every_spelling_of_an_address_has_one_canonical_form(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    assert canonical(address.exploded) == canonical(str(address).upper()) == str(address)


@given(st.text(max_size=250) | st.from_regex(r"[0-9a-fx.%]{1,40}", fullmatch=True))
def test_nothing_makes_the_readers_of_addresses_raise(text: str) -> None:
    assert canonical(text) is None or ipaddress.ip_address(text)
    found = disguised(text)
    assert found is None or ipaddress.IPv4Address(found)
