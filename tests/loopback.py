"""A server on loopback that answers what a test tells it, and an Egress whose public addresses end there."""

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from metier.sandbox.egress import Egress
from metier.sandbox.egress_limits import EgressLimits

PUBLIC = "93.184.216.34"
PUBLIC_6 = "2606:2800:220:1:248:1893:25c8:1946"


@dataclass
class Asked:
    """One request as it came in."""

    line: str
    headers: dict[str, str]
    raw: bytes
    body: bytes

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]


Answering = Callable[[Asked], bytes | Iterable[bytes]]


def reply(status: str = "200 OK", body: bytes = b"hello", **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode("latin-1") + body


class Listener:
    """Accepts connections until it is closed, one thread each, and keeps what it was asked."""

    def __init__(self, answering: Answering, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.names: list[str | None] = []
        """What TLS clients asked for."""
        self._answering = answering
        self._tls = tls
        if tls is not None:
            tls.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self._closing = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(0.02)
        self.port: int = self._server.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        self._closing.set()
        for thread in list(self._threads):
            thread.join(10)
        self._server.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._server.accept()
            except TimeoutError:
                continue
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            while (asked := self._read(connection)) is not None:
                self.asked.append(asked)
                answer = self._answering(asked)
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    if self._closing.is_set():
                        return
                    connection.sendall(piece)
                if not isinstance(answer, bytes):
                    return
        except (OSError, ValueError):
            pass  # the client went away, or never wanted to speak
        finally:
            connection.close()

    def _read(self, connection: socket.socket) -> Asked | None:
        raw = b""
        while b"\r\n\r\n" not in raw:
            piece = connection.recv(65_536)
            if not piece:
                return None
            raw += piece
        head, _, body = raw.partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
        while len(body) < int(headers.get("content-length", "0")):
            piece = connection.recv(65_536)
            if not piece:
                return None
            body += piece
        return Asked(line, headers, head, body)


@dataclass
class World:
    """Names, what they resolve to, one answer list per lookup, and where public addresses end up."""

    names: dict[str, list[list[str]]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    """Port on loopback by public address."""
    lookups: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)

    def put(self, name: str, listener: Listener, address: str = PUBLIC) -> None:
        self.names[name] = [[address]]
        self.places[address] = listener.port

    async def resolve(self, host: str) -> list[str]:
        """Each lookup of a name uses up one of its answers; the last one stays."""
        self.lookups.append(host)
        answers = self.names.get(host)
        if not answers:
            raise OSError(f"no such name: {host}")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def connect(self, address: str, port: int) -> tuple[str, int]:
        self.dialled.append((address, port))
        return ("127.0.0.1", self.places.get(address, 1))

    def egress(self, *hosts: str, limits: EgressLimits | None = None, **more: Any) -> Egress:
        more = {"resolver": self.resolve, "connect": self.connect, **more}
        return Egress(hosts=frozenset(hosts), limits=limits or quick(), **more)


def quick(**limits: Any) -> EgressLimits:
    return EgressLimits(**{"connect_seconds": 2.0, "read_seconds": 2.0, "backoff_seconds": 0.001, **limits})


@dataclass
class Authority:
    """A certificate authority of a test's own."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    name: x509.Name

    @property
    def roots(self) -> str:
        return str(self.folder / "roots.pem")

    def server(self, *names: str, days: int = 30, self_signed: bool = False) -> ssl.SSLContext:
        """What a server with a certificate for `names` needs; with negative `days` it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        issuer, signer = (subject, key) if self_signed else (self.name, self.key)
        made = _certificate(subject, issuer, key.public_key(), signer, days, _alternatives(names))
        file = self.folder / f"server-{made.serial_number}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


def _alternatives(names: Iterable[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(
        [
            x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
            for name in names
        ]
    )


def _certificate(
    subject: Any, issuer: Any, public: Any, signer: Any, days: int, extra: Any
) -> x509.Certificate:
    """With everything that Python 3.13, which checks strictly, expects of a real one."""
    now = datetime.datetime.now(datetime.UTC)
    authority = isinstance(extra, x509.BasicConstraints)
    usage = x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=60))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(extra, critical=authority)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )


def make_authority(folder: Path) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "An authority for tests")])
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    made = _certificate(name, name, key.public_key(), key, 30, constraints)
    (folder / "roots.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return Authority(folder, key, name)
