"""The certificate that the server shows of itself. Its files may be replaced while it runs."""

import logging
from pathlib import Path
from ssl import OP_NO_RENEGOTIATION, PROTOCOL_TLS_SERVER, SSLContext, SSLError, TLSVersion
from stat import S_IROTH

from batchq.errors import StartImpossible

log = logging.getLogger(__name__)

Stamp = tuple[tuple[int, ...] | None, ...]


class Certificate:
    """A chain and its key, both PEM. Raises StartImpossible for what cannot be used, or is no secret."""

    def __init__(self, *, chain: Path, key: Path) -> None:
        self._chain = chain
        self._key = key
        self._seen = self._stamp()
        self._context = self._read()

    def context(self) -> SSLContext:
        """For the next connection, by the files as they are now; as they were, while they are of no use."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._context = self._read()
                log.info("the certificate in %s was replaced, and is used from now on", self._chain)
            except StartImpossible as why:
                log.warning("%s; until then the certificate that was there before is used", why)
        return self._context

    def _stamp(self) -> Stamp:
        return _stamp(self._chain), _stamp(self._key)

    def _read(self) -> SSLContext:
        context = SSLContext(PROTOCOL_TLS_SERVER)
        context.minimum_version = TLSVersion.TLSv1_2
        context.options |= OP_NO_RENEGOTIATION  # a client could have us do the costly part again and again
        try:
            for file in (self._chain, self._key):
                file.open("rb").close()  # OpenSSL does not say which of them it could not read
            if self._key.stat().st_mode & S_IROTH:
                raise StartImpossible(f"{self._key} holds a secret and can be read by everybody: chmod 600 {self._key}")
            context.load_cert_chain(self._chain, self._key, password=self._refuse)
        except SSLError:
            raise StartImpossible(f"{self._chain} is no certificate, in PEM, of the key in {self._key}") from None
        except OSError as why:
            raise StartImpossible(f"cannot read {why.filename}: {why.strerror}") from None
        return context

    def _refuse(self) -> str:
        """OpenSSL would ask at the terminal, and wait there."""
        raise StartImpossible(f"{self._key} has a passphrase, and nobody is there to say it: openssl pkey takes it off")


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
