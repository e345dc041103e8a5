"""A certificate authority of the tests, and certificates that it issues."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme

from batchq.api.http.tls import Certificate

HERE = ("127.0.0.1", "localhost", "0.0.0.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files of a certificate, its key, and the bundle of its authority."""

    chain: Path
    key: Path
    bundle: Path

    def certificate(self):
        return Certificate(chain=self.chain, key=self.key)

    def trust(self):
        """The TLS context of a client that trusts this authority only."""
        return ssl.create_default_context(cafile=self.bundle)

    def flags(self):
        """The flags of `batchq serve` for this certificate."""
        return "--tls-cert", str(self.chain), "--tls-key", str(self.key)


class Authority:
    def __init__(self, folder):
        self._folder = folder
        self._authority = trustme.CA()
        self.bundle = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.bundle))

    def issue(self, name="server", *, hosts=HERE, until=None):
        """Write the files of a new certificate for these hosts, over earlier files of the same name."""
        files = Files(chain=self._folder / f"{name}.pem", key=self._folder / f"{name}.key", bundle=self.bundle)
        made = self._authority.issue_cert(*hosts, not_after=until)
        self._put(files.chain, b"".join(pem.bytes() for pem in made.cert_chain_pems))
        self._put(files.key, made.private_key_pem.bytes())
        return files

    def _put(self, file, content):
        """Write the file atomically, as a renewal of certificates does."""
        new = file.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_bytes(content)
        new.replace(file)
