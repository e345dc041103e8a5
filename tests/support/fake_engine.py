"""A fake container engine: an HTTP server at a unix socket, and the errors that the SDK makes of its replies."""

import json
import re
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingUnixStreamServer
from urllib.parse import unquote_plus

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


PODMAN_VERSION = json.dumps(
    {"ApiVersion": "1.41", "MinAPIVersion": "1.24", "Components": [{"Name": "Podman Engine"}], "Arch": "amd64"}
).encode()


class ScriptedReplies:
    """Replies by method and path. `requests` are the methods with the paths and queries, without the API version.

    `script` maps the beginning of a request, as `GET /info`, to replies: pairs of a status and a JSON value. Each reply
    is sent once, the last one for ever. The longest beginning counts; other requests are answered 404.
    """

    def __init__(self, script, *, version=PODMAN_VERSION):
        self._script = {begins: list(replies) for begins, replies in script.items()}
        self._version = version
        self.requests = []

    def __call__(self, handler):
        path = unquote_plus(re.sub(r"^/v[\d.]+", "", handler.path))
        if path.startswith("/version"):
            self._send(handler, 200, self._version)
            return
        request = f"{handler.command} {path}"
        self.requests.append(request)
        replies = max(
            (pair for pair in self._script.items() if request.startswith(pair[0])),
            key=lambda pair: len(pair[0]),
            default=("", []),
        )[1]
        status, value = (replies.pop(0) if len(replies) > 1 else replies[0]) if replies else (404, {"message": "none"})
        self._send(handler, status, b"" if value is None else json.dumps(value).encode())

    def _send(self, handler, status, content):
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)
