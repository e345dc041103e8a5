"""The server's TLS certificate. Its files may be replaced while the server runs. Decision 0021."""

import logging
from pathlib import Path
from ssl import OP_NO_RENEGOTIATION, PROTOCOL_TLS_SERVER, SSLContext, SSLError, TLSVersion
from stat import S_IROTH

from batchq.errors import StartImpossible

log = logging.getLogger(__name__)

Stamp = tuple[tuple[int, ...] | None, ...]


class Certificate:
    """A certificate chain and its key, both PEM. Raises StartImpossible for invalid files, or a key all can read."""

    def __init__(self, *, chain: Path, key: Path) -> None:
        self._chain = chain
        self._key = key
        self._loaded = self._stamp()
        self._context = self._read()

    def context(self) -> SSLContext:
        """Return the context for the next connection, from the current files; while they are invalid, the last one."""
        stamp = self._stamp()
        if stamp != self._loaded:
            self._loaded = stamp
            try:
                self._context = self._read()
                log.info("the certificate in %s was replaced, and is used for new connections", self._chain)
            except StartImpossible as why:
                log.warning("%s; the previous certificate remains in use", why)
        return self._context

    def _stamp(self) -> Stamp:
        return _stamp(self._chain), _stamp(self._key)

    def _read(self) -> SSLContext:
        context = SSLContext(PROTOCOL_TLS_SERVER)
        context.minimum_version = TLSVersion.TLSv1_2
        context.options |= OP_NO_RENEGOTIATION  # a client could repeat the expensive part of the handshake
        try:
            for file in (self._chain, self._key):
                file.open("rb").close()  # OpenSSL does not report which file it could not read
            if self._key.stat().st_mode & S_IROTH:
                raise StartImpossible(f"all users can read the private key in {self._key}: chmod 600 {self._key}")
            context.load_cert_chain(self._chain, self._key, password=self._refuse)
        except SSLError:
            raise StartImpossible(f"{self._chain} is not a PEM certificate of the private key in {self._key}") from None
        except OSError as why:
            raise StartImpossible(f"cannot read {why.filename}: {why.strerror}") from None
        return context

    def _refuse(self) -> str:
        """Called for a key with a passphrase; without it OpenSSL would ask at the terminal and wait."""
        raise StartImpossible(f"{self._key} is encrypted with a passphrase: remove it with openssl pkey")


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
