"""A unix socket in front of the engine's that can be closed, cut and silenced, as a failing engine would be."""

import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

from batchq.compute.docker.client import ClientFactory

CHUNK = 65536


class Proxy:
    """Forwards requests and replies. While it is `silent`, it forwards requests and drops the replies.

    A connection whose request contains `muted_by` gets no reply from then on; None: no connection.
    """

    def __init__(self, path):
        self.path = path
        self.silent = False
        self.muted_by: bytes | None = None
        self._muted = set()
        self._open = set()
        self._lock = threading.Lock()
        self._listener = None

    @property
    def url(self):
        return f"unix://{self.path}"

    def listen(self):
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self):
        """Stop listening, and close every connection."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
            Path(self.path).unlink()
        self.cut()

    def recover(self):
        self.silent = False
        self.cut()
        if self._listener is None:
            self.listen()

    def cut(self):
        """End every connection that is open."""
        with self._lock:
            cut, self._open = self._open, set()
        for each in cut:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener):
        with suppress(OSError):
            while True:
                caller, _ = listener.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(ClientFactory(None).socket)
                with self._lock:
                    self._open |= {caller, engine}
                ends = threading.Barrier(2, action=lambda both=(caller, engine): [each.close() for each in both])
                threading.Thread(target=self._pass, args=(caller, engine, False, ends), daemon=True).start()
                threading.Thread(target=self._pass, args=(engine, caller, True, ends), daemon=True).start()

    def _pass(self, source, target, answers, ends):
        with suppress(OSError):
            while data := source.recv(CHUNK):
                if not answers and self.muted_by is not None and self.muted_by in data:
                    self._muted.add(target)
                if not (answers and (self.silent or source in self._muted)):
                    target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        ends.wait()


@contextmanager
def proxy(folder):
    """A listening proxy with its socket in `folder`."""
    spec = Proxy(folder / "engine.sock")
    spec.listen()
    try:
        yield spec
    finally:
        spec.close()
