"""An authority of the tests' own, and the certificates that it gives out."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme

from batchq.api.tls import Certificate

HERE = ("127.0.0.1", "localhost", "0.0.0.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Where a certificate and its key lie, and the bundle of the authority that vouches for it."""

    chain: Path
    key: Path
    bundle: Path

    def certificate(self):
        return Certificate(chain=self.chain, key=self.key)

    def trust(self):
        """What a client has that believes the authority, and nobody else."""
        return ssl.create_default_context(cafile=self.bundle)

    def flags(self):
        """Those of `batchq serve`."""
        return "--tls-cert", str(self.chain), "--tls-key", str(self.key)


class Authority:
    def __init__(self, folder):
        self._folder = folder
        self._authority = trustme.CA()
        self.bundle = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.bundle))

    def issue(self, name="server", *, hosts=HERE, until=None):
        """Files of a certificate for those hosts. Asked again by the same name it puts others in their place."""
        files = Files(chain=self._folder / f"{name}.pem", key=self._folder / f"{name}.key", bundle=self.bundle)
        made = self._authority.issue_cert(*hosts, not_after=until)
        self._put(files.chain, b"".join(it.bytes() for it in made.cert_chain_pems))
        self._put(files.key, made.private_key_pem.bytes())
        return files

    def _put(self, file, content):
        """Whole or not at all, as who renews certificates does it."""
        new = file.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_bytes(content)
        new.replace(file)
