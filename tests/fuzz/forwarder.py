"""A port of loopback that forwards to a unix socket, for programs that speak TCP only."""

import socketserver
import threading
from contextlib import contextmanager
from socket import AF_UNIX, SHUT_WR, SOCK_STREAM, socket


@contextmanager
def forwarded(path):
    """The URL of the port."""

    class Forward(socketserver.BaseRequestHandler):
        def handle(self):
            with socket(AF_UNIX, SOCK_STREAM) as server:
                server.connect(str(path))
                back = threading.Thread(target=copy, args=(server, self.request))
                back.start()
                copy(self.request, server)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Forward) as port:
        port.daemon_threads = True
        serving = threading.Thread(target=port.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{port.server_address[1]}"
        finally:
            port.shutdown()
            serving.join()


def copy(source, target):
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(SHUT_WR)
    except OSError:
        pass
