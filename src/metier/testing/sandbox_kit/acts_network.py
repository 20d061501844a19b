"""Acts of a guest: the network, sockets, and where a grant leads. Each function is a program of its own, as in `acts_run`."""

# pyright: basic, reportUnknownMemberType=false
# Programs for the other side: plain, and not worth a type for every list.

from typing import Any

from metier.testing.sandbox_kit.tries import Tries


def network(params: dict[str, Any]) -> Any:
    """Reach the host's own loopback, make a socket of a family that reaches anything else, or see what others do there."""
    import os
    import socket

    tries = Tries()
    with tries("tcp"):
        socket.create_connection(("127.0.0.1", params["tcp"]), 1).close()
    with tries("tcp_version_6"):
        socket.create_connection(("::1", params["tcp6"]), 1).close()
    with tries("udp"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.settimeout(1)
        made.sendto(b"out", ("127.0.0.1", params["udp"]))
        made.recv(10)
    with tries("listen"), socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen()
    with tries("icmp"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP):
        pass
    with tries("raw"), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP):
        pass
    for family in ("AF_NETLINK", "AF_VSOCK", "AF_PACKET", "AF_ALG"):
        with tries(family):
            kind = socket.SOCK_SEQPACKET if family == "AF_ALG" else socket.SOCK_RAW
            socket.socket(getattr(socket, family), kind).close()
    with tries("names"):
        socket.getaddrinfo("localhost", params["tcp"], proto=socket.IPPROTO_TCP)
        if not os.path.exists("/etc/hosts"):
            raise OSError("nobody was asked")
    bash = "/bin/bash"
    with tries("shell"):
        line = f"exec 3<>/dev/tcp/127.0.0.1/{params['tcp']}"
        out = os.open("/dev/null", os.O_WRONLY)
        actions = [(os.POSIX_SPAWN_DUP2, out, 2)]
        kid = os.posix_spawn(bash, [bash, "-c", line], {}, file_actions=actions)
        if os.waitpid(kid, 0)[1] != 0:
            raise PermissionError("refused")
    # What of the host's network shows: its listeners, its sockets, its devices.
    for kind, port in (("tcp", params["tcp"]), ("udp", params["udp"])):
        with tries(f"sees_{kind}"), open(f"/proc/net/{kind}") as file:
            if f":{port:04X} " not in file.read():
                raise OSError("it is not there")
    with tries("sees_sockets"), open("/proc/net/unix") as file:
        if params["socket"] not in file.read():
            raise OSError("it is not there")
    with tries("sees_devices"):
        if set(os.listdir("/sys/class/net")) <= {"lo"}:
            raise OSError("there is none but its own")
    with tries("sees_traffic"), open("/proc/net/dev") as file:
        if {line.split(":")[0].strip() for line in file if ":" in line} <= {"lo"}:
            raise OSError("there is none but its own")
    with tries("sees_routes"), open("/proc/net/route") as file:
        if len(file.readlines()) < 2:
            raise OSError("there is none")
    return tries.said()


def by_grant(params: dict[str, Any]) -> Any:
    """Ask for each address as a client does that was told of a proxy, and follow where it leads."""
    import os
    import socket

    tries = Tries()
    port = int((os.environ.get("http_proxy") or ":0").rpartition(":")[2].rstrip("/"))

    def answer(line: str, host: str) -> bytes:
        with socket.create_connection(("127.0.0.1", port), 3) as asking:
            asking.settimeout(5)
            asking.sendall(f"{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            data = b""
            while more := asking.recv(4096):
                data += more
                if line.startswith("CONNECT") and b"\r\n\r\n" in data:
                    break
            return data

    for name, url in params["ways"].items():
        with tries(name):
            if "//" not in url:
                if b" 200 " not in answer(f"CONNECT {url}", url).split(b"\r\n")[0]:
                    raise PermissionError("there is no tunnel")
                continue
            said = answer(f"GET {url}", url.split("/")[2])
            head = said.split(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
            for away in [line[10:] for line in head if line.lower().startswith("location: ")]:
                said = answer(f"GET {away}", away.split("/")[2])
            if params["word"].encode() not in said:
                raise PermissionError("it is not there")
    return tries.said()


def unix_sockets(params: dict[str, Any]) -> Any:
    import socket

    tries = Tries()
    for name in ("abstract", "path"):
        address = "\0" + params[name] if name == "abstract" else params[name]
        for kind, number in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM)):
            with tries(f"{name}_{kind}"), socket.socket(socket.AF_UNIX, number) as made:
                made.settimeout(1)
                made.connect(address + ("" if kind == "stream" else ".dgram"))
        with tries(f"{name}_by_a_pair"):
            one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            with one, two:
                one.sendto(b"out", address + ".dgram")
    return tries.said()
