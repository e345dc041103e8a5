"""A fake container engine: an HTTP server at a unix socket, and the errors that the SDK makes of its replies."""

import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingUnixStreamServer

from docker.errors import APIError
from requests import Response

VERSION = b'{"ApiVersion": "1.41", "MinAPIVersion": "1.12"}'


@contextmanager
def engine(folder, answer):
    """A server that answers each request by `answer(handler)`; its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self):
            with suppress(OSError):
                super().handle_one_request()

        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer(self)

        do_POST = do_DELETE = do_GET  # noqa: N815 - as the library spells them

        def address_string(self):
            return "test"

        def log_message(self, *_):
            pass

    path = folder / "engine.sock"
    server = ThreadingUnixStreamServer(str(path), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"unix://{path}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def responds(status, body, *, speaks_version=True):
    """The same response to every request; with `speaks_version` except that for the version."""

    def answer(handler):
        is_version = speaks_version and handler.path.endswith("/version")
        content = VERSION if is_version else body
        handler.send_response(200 if is_version else status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def api_error(status, explanation, kind=APIError):
    """The SDK's error for a reply with this status and message."""
    response = Response()
    response.status_code = status
    return kind(f"{status} Client Error", response=response, explanation=explanation)
