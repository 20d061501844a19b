"""The one reader of URLs: strict, and of one mind with every other reader about what it accepts."""

import ipaddress
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metier.errors import ConfigError
from metier.sandbox.grants import read_grants
from metier.sandbox.url import BadUrl, Url, read_url


def read(text: str) -> Url:
    url = read_url(text)
    assert isinstance(url, Url), url
    return url


def refused(*texts: str) -> bool:
    wrong = [text for text in texts if isinstance(read_url(text), Url)]
    assert wrong == []
    return True


def test_a_plain_url_is_read_into_its_parts() -> None:
    url = read("HTTPS://API.Example.com:8443/a/b?c=d&e=f#part")
    assert url == Url(scheme="https", host="api.example.com", port=8443, target="/a/b?c=d&e=f")
    assert str(url) == "https://api.example.com:8443/a/b?c=d&e=f"
    assert str(read("https://example.com:443")) == "https://example.com/"
    assert read("https://[2606:4700::0:1111]:8443/").place == "[2606:4700::1111]:8443"


def test_net_13_a_user_before_the_host_is_refused() -> None:
    assert refused(
        "http://allowed.com@evil.com/", "http://evil.com\\@allowed.com/", "http://a@b@c/", "http://a:b@allowed.com/",
        "http://@allowed.com/", "http://allowed.com%40evil.com/", "http://evil.com\\\\@allowed.com/",
    )  # fmt: skip
    assert read("http://evil.com#@allowed.com/").host == "evil.com"
    assert read("http://evil.com?@allowed.com/").host == "evil.com"
    careless = "http://allowed.com@evil.com/"
    assert careless.startswith("http://allowed.com")
    assert urlsplit(careless).hostname == "evil.com", "what a check of the beginning overlooks"


def test_net_14_a_name_grants_itself_and_nothing_that_looks_like_it() -> None:
    grants = read_grants({"allowed.com"})
    for host in (
        "evil-allowed.com", "allowed.com.evil.com", "notallowed.com", "a.allowed.com", "allowed.comm", "allowed.co",
        "llowed.com", "allowed-com.evil.com", "allowedxcom",
    ):  # fmt: skip
        assert not grants.allow(read(f"https://{host}/"))
    assert grants.allow(read("https://allowed.com/anything"))
    assert "notallowed.com".endswith("allowed.com"), "a check of the end is fooled"


@pytest.mark.parametrize(
    "grant",
    ["*", "*.allowed.com", "**", ".allowed.com", "", " ", "allowed.com/", "allowed.com/path", "ftp://allowed.com",
     "a@allowed.com", "allowed.com:0", "allowed.com:*", "127.0.0.1", "localhost", "10.0.0.0/8", "0x7f.1", "[::1]",
     "metadata.google.internal", "allowed.com?", "allowed.com#x", "https://"],
)  # fmt: skip
def test_net_15_a_pattern_or_a_closed_place_is_no_grant(grant: str) -> None:
    with pytest.raises(ConfigError, match=r"host grant .*\. .") as problem:
        read_grants({"fine.example.com", grant})
    assert problem.value.remedy


def test_net_16_a_host_has_one_spelling_before_it_is_compared() -> None:
    grants = read_grants({"Allowed.COM", "xn--mnchen-3ya.de"})
    for host in ("allowed.com", "ALLOWED.com", "allowed.com.", "Allowed.Com.", "XN--MNCHEN-3YA.de"):
        assert grants.allow(read(f"https://{host}/")), host
    assert refused(
        "https://allowed.com../", "https://.allowed.com/", "https://allowed..com/", "https://münchen.de/",
        "https://straße.de/", "https://a\u200db.com/", "https://allowed\u3002com/", "https://-a.com/",
        "https://a-.com/", f"https://{'a' * 64}.com/", f"https://{'a.' * 130}com/", "https://a_b.com/",
        "https://./", "https:///", "https://?", "https://allowed.com\u00ad/", "https://ａllowed.com/",
    )  # fmt: skip


def test_net_17_a_nul_is_refused_wherever_it_stands() -> None:
    assert refused(
        "http://evil.com\0.allowed.com/", "http://evil.com%00.allowed.com/", "http://allowed.com/\0", "\0http://a.com/",
        "http://allowed.com/%00", "http://allowed.com/?q=%00", "http://allowed.com:80\0/",
    )  # fmt: skip


def test_net_18_white_space_and_control_characters_are_never_dropped() -> None:
    assert refused(
        "http://go\nod.com/", "http://go\tod.com/", "ht\ntp://good.com/", " http://good.com/", "http://good.com/ ",
        "http://good.com/a b", "http://good.com/\r\n", "\x01http://good.com/", "http://good.com/\x7f", "http:// good.com",
        "http://good.com/\u00a0", "http://good.com\u2028/",
    )  # fmt: skip
    assert urlsplit("http://go\nod.com/").hostname == "good.com", "the standard library drops it"


def test_net_20_only_http_and_https_are_read() -> None:
    assert refused(
        "file:///etc/passwd", "FILE:///etc/passwd", "ftp://a.com/", "gopher://a.com/_x", "dict://a.com:11211/", "data:,x",
        "jar:http://a.com!/", "unix:///run/docker.sock", "http+unix://x/", "ws://a.com/", "wss://a.com/", "httpss://a.com",
        "javascript:alert(1)", "//a.com/", "/path", "a.com", "", "http", "http:", "http:a.com", "http:/a.com",
        "http:///a.com", "https:\\\\a.com", "url:http://a.com/", "view-source:http://a.com/", " file:///x", "blob:http://a",
    )  # fmt: skip


def test_net_21_odd_ports_are_refused_and_others_are_not_granted() -> None:
    assert refused(*(f"https://allowed.com:{port}/" for port in (
        "0", "65536", "+80", "８０", "80:80", "", "-1", "080", "1e3", "0x50", "80 ", "99999", "443a", "%34%34%33",
    )))  # fmt: skip
    grants = read_grants({"allowed.com", "allowed.com:8443", "http://plain.com"})
    for port in (22, 25, 80, 6379, 8080):
        assert not grants.allow(read(f"https://allowed.com:{port}/"))
    assert grants.allow(read("https://allowed.com:443/"))
    assert grants.allow(read("https://allowed.com:8443/"))
    assert not grants.allow(read("http://allowed.com/"))
    assert not grants.allow(read("http://allowed.com:443/"))
    assert grants.allow(read("http://plain.com/"))
    assert not grants.allow(read("https://plain.com/"))


def test_net_31_no_grants_mean_no_network() -> None:
    grants = read_grants(frozenset())
    for url in ("https://example.com/", "http://example.com/", "https://93.184.216.34/"):
        assert not grants.allow(read(url))


def test_net_32_what_is_denied_stays_denied_whatever_is_granted() -> None:
    hosts = {"a.com", "a.com:8443", "http://a.com", "b.com"}
    grants = read_grants(hosts, denied={"A.com"})
    for url in ("https://a.com/", "https://a.com:8443/", "http://a.com/", "https://a.com./"):
        assert not grants.allow(read(url))
        assert read_grants(hosts).allow(read(url))
    assert grants.allow(read("https://b.com/"))
    with pytest.raises(ConfigError, match="must be a host alone"):
        read_grants(hosts, denied={"a.com:8443"})


def test_what_is_wrong_with_a_url_is_said() -> None:
    for text, word in (
        ("https://a.com:0/", "port"), ("https://münchen.de/", "xn--"), ("https://u@a.com/", "user"),
        ("https://a.com\\b", "backslash"), ("https://a.com/ b", "white space"), ("ftp://a.com", "http and https"),
        ("https://a.com/%zz", "percent"), ("x" * 9_000, "longer"), ("https://1.2.3/", "IPv4"), ("https://[::1", "form"),
    ):  # fmt: skip
        bad = read_url(text)
        assert isinstance(bad, BadUrl)
        assert word in bad.why


PIECES = st.sampled_from(
    ["http", "https", "HTTP", "file", ":", "/", "//", "///", "\\", "@", "#", "?", ".", "..", "[", "]", "%", "%00", "%2e",
     "%40", " ", "\t", "\n", "\0", "\x7f", "a.com", "allowed.com", "127.0.0.1", "127.1", "0x7f", "::1", "::ffff:1.2.3.4",
     "fe80::1%25x", "80", "0", ":443", ":+1", "xn--a", "é", "①", "。", "\u200d", "-", "_", "~", "|", "'", '"', "<", "&="],
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=10).map("".join)
LIKELY = st.builds("{}://{}{}".format, st.sampled_from(["http", "https", "HTTPS"]), TEXTS, TEXTS)


@given(TEXTS | LIKELY | st.text(max_size=60) | st.from_regex(r"https?://[a-z0-9.:\[\]%@-]{1,30}[/?#].{0,20}"))
@example("http://a.com?//b.com/@c.com")
@example("https://[::ffff:127.0.0.1]:1/")
def test_what_is_accepted_means_the_same_to_every_reader(text: str) -> None:
    url = read_url(text)
    if isinstance(url, BadUrl):
        assert url.why
        return
    assert read_url(str(url)) == url
    assert str(url).isascii()
    assert str(url).isprintable()
    for other in (urlsplit(text), urlsplit(str(url))):
        assert spelled(other.hostname or "") == url.host
        assert other.username is None
        assert (other.port or {"http": 80, "https": 443}[url.scheme]) == url.port
    assert spelled(httpx2.URL(text).host) == spelled(httpx2.URL(str(url)).host) == url.host


def spelled(host: str) -> str:
    """A host as the reader under test spells it."""
    return ipaddress.IPv6Address(host).compressed if ":" in host else host.lower().removesuffix(".")
