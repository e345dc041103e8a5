"""Where a cluster is and how batchq authenticates there: a kubeconfig file, or the files of a pod inside the cluster.

A kubeconfig can name programs that print a token, proxies and passwords. batchq runs no programs of a configuration
file, and refuses what it does not use.
"""

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

from batchq.errors import StartImpossible

IN_CLUSTER = "in-cluster"
#: The files that Kubernetes mounts into each pod with a service account.
ACCOUNT_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_AGE = timedelta(minutes=1)  # a mounted token is replaced while it is still valid
#: The oldest supported version: the uid of a binding is checked since 1.27, gates are stable since 1.30.
OLDEST_VERSION = (1, 30)
REFUSED_USER_MEMBERS = ("exec", "auth-provider", "username", "password")


class TokenFile:
    """A bearer token in a file that is replaced from time to time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = ""
        self._read_at: datetime | None = None

    def read(self, now: datetime) -> str:
        """The token, read again after a minute. Raises OSError."""
        if self._read_at is None or now - self._read_at >= TOKEN_AGE:
            self._token, self._read_at = self._path.read_text(encoding="ascii").strip(), now
        return self._token


class FixedToken(Struct, frozen=True, kw_only=True):
    """A bearer token of a configuration file."""

    #: Empty: no token is sent.
    value: str

    def read(self, _now: datetime) -> str:
        return self.value


class ClusterAccess(Struct, frozen=True, kw_only=True):
    """A cluster and the credentials for it."""

    #: The URL of the API server, without a slash at the end.
    server: str
    #: The namespace of the jobs, which belongs to batchq alone.
    namespace: str
    token: TokenFile | FixedToken
    #: None: the URL is http.
    tls: ssl.SSLContext | None = None
    #: The name that the server's certificate must have; None: that of the URL.
    tls_name: str | None = None


def load_cluster(reference: str) -> ClusterAccess:
    """Load `FILE`, `FILE#CONTEXT` or `in-cluster`. Raises StartImpossible."""
    if reference == IN_CLUSTER:
        return _in_cluster(os.environ, ACCOUNT_FILES)
    file, _, context = reference.partition("#")
    try:
        return _from_kubeconfig(_loaded(Path(file)), Path(file).parent, context)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise StartImpossible(f"the kubeconfig {file} cannot be used: {error}") from error


def check_version(reply: Mapping[str, Any], *, allow_old: bool) -> tuple[int, int]:
    """The version in a reply to `/version`. Raises StartImpossible for an unsupported one, unless `allow_old`."""
    digits = ["".join(text for text in str(reply.get(name)) if text.isdecimal()) for name in ("major", "minor")]
    if not all(digits):
        raise StartImpossible(f"the Kubernetes server reports no version: {reply!r}"[:200])
    version = int(digits[0]), int(digits[1])
    if version < OLDEST_VERSION and not allow_old:
        supported = ".".join(map(str, OLDEST_VERSION))
        raise StartImpossible(f"Kubernetes {version[0]}.{version[1]} is not supported: {supported} or newer is needed")
    return version


def _in_cluster(variables: Mapping[str, str], files: Path) -> ClusterAccess:
    host, port = variables.get("KUBERNETES_SERVICE_HOST"), variables.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise StartImpossible("batchq does not run in a Kubernetes cluster: KUBERNETES_SERVICE_HOST is not set")
    try:
        return ClusterAccess(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            namespace=(files / "namespace").read_text(encoding="utf-8").strip(),
            token=TokenFile(files / "token"),
            tls=ssl.create_default_context(cafile=str(files / "ca.crt")),
        )
    except (OSError, ssl.SSLError) as error:
        raise StartImpossible(f"the service account of this pod cannot be used: {error}") from error


def _loaded(file: Path) -> Mapping[str, Any]:
    """The contents of a kubeconfig. Raises OSError and ValueError; StartImpossible without PyYAML."""
    try:
        import yaml  # noqa: PLC0415 - of the extra `kubernetes`
    except ModuleNotFoundError:
        raise StartImpossible("a kubeconfig needs PyYAML: install `batchq[kubernetes]`") from None
    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    return config if isinstance(config, dict) else {}


def _from_kubeconfig(config: Mapping[str, Any], folder: Path, context_name: str) -> ClusterAccess:
    context = _named(config, "contexts", "context", context_name or str(config.get("current-context") or ""))
    cluster = _named(config, "clusters", "cluster", str(context.get("cluster")))
    user = _named(config, "users", "user", str(context["user"])) if context.get("user") else {}
    _check_supported(cluster, user)
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise ValueError(f"the server {server!r} is not a URL")
    token_file = user.get("tokenFile")
    return ClusterAccess(
        server=server,
        namespace=str(context.get("namespace") or "default"),
        token=TokenFile(folder / token_file) if token_file else FixedToken(value=str(user.get("token") or "")),
        tls=_tls(cluster, user, folder) if server.startswith("https://") else None,
        tls_name=cluster.get("tls-server-name"),
    )


def _named(config: Mapping[str, Any], kind: str, member: str, name: str) -> Mapping[str, Any]:
    for entry in config.get(kind) or ():
        if entry.get("name") == name:
            value = entry.get(member)
            return value if isinstance(value, dict) else {}
    raise ValueError(f"{kind} has no entry {name!r}")


def _check_supported(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> None:
    for member in REFUSED_USER_MEMBERS:
        if user.get(member):
            raise ValueError(f"users[].user.{member} is not supported: use a token or a client certificate")
    if cluster.get("proxy-url"):
        raise ValueError("clusters[].cluster.proxy-url is not supported")


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority", folder)
    context = ssl.create_default_context(cadata=None if authority is None else authority.decode())
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = (_content(user, f"client-{text}", folder) for text in ("certificate", "key"))
    if certificate is not None and key is not None:
        # The ssl module reads certificates from files only; this one is readable by its owner alone.
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(certificate + b"\n" + key)
            pem.flush()
            context.load_cert_chain(pem.name)
    return context


def _content(entry: Mapping[str, Any], member: str, folder: Path) -> bytes | None:
    """The content of a PEM file that the entry names, or that it has in base64; None: neither."""
    if entry.get(f"{member}-data"):
        return base64.b64decode(entry[f"{member}-data"], validate=True)
    return (folder / entry[member]).read_bytes() if entry.get(member) else None
