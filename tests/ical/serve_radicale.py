"""Radicale in a process of its own: `serve_radicale.py FOLDER [CERTIFICATE KEY]`. Says its port, then serves until killed.

Its own server takes no port 0, and a port that was free a moment ago may be somebody else's by now.
"""

import socketserver
import ssl
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from radicale import Application
from radicale.config import load


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


folder, *tls = sys.argv[1:]
configuration = load()
configuration.update(
    {
        "auth": {
            "type": "htpasswd",
            "htpasswd_filename": f"{folder}/users",
            "htpasswd_encryption": "plain",
            "delay": "0",
        },
        "storage": {"filesystem_folder": f"{folder}/data"},
        "logging": {"level": "critical"},
    },
    "the test",
)
server = make_server("127.0.0.1", 0, Application(configuration), server_class=Server, handler_class=Quiet)
if tls:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls)
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
