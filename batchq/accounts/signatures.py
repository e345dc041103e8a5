"""AWS Signature Version 4: the signature of a request with an access key. Clients send it, the server compares it.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html. The tests compare it with
botocore's signer. Commands import this module, so it imports nothing of the server. Decision 0096.
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"
TIMESTAMP = "%Y%m%dT%H%M%SZ"


class SigningKey(NamedTuple):
    """An access key with the region and the service for which it signs."""

    id: str
    secret: str
    region: str
    service: str


def sigv4_signature(
    key: SigningKey, *, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
) -> str:
    """The signature of a request, 64 hexadecimal digits.

    `path` and `query` are percent-encoded, as they are sent. `headers` are the signed ones, by names in lower case,
    and include `x-amz-date`.
    """
    at = headers["x-amz-date"]
    names = sorted(headers)
    lines = [f"{name}:{' '.join(headers[name].split())}\n" for name in names]
    # AWS: the path is encoded once more, for all services but S3.
    canonical = "\n".join(
        [
            method,
            quote(path, safe="/~"),
            _canonical_query(query),
            "".join(lines),
            ";".join(names),
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = [at[:8], key.region, key.service, "aws4_request"]
    to_sign = "\n".join([ALGORITHM, at, "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()])
    derived = f"AWS4{key.secret}".encode()
    for part in scope:
        derived = _hmac(derived, part)
    return _hmac(derived, to_sign).hex()


def signed_headers(
    key: SigningKey, *, method: str, url: str, headers: Mapping[str, str], body: bytes, now: datetime
) -> Mapping[str, str]:
    """`headers` with those that sign the request: Host, X-Amz-Date and Authorization. All are signed.

    `now`: the wall clock's time, aware.
    """
    target = urlsplit(url)
    sent = {**headers, "Host": target.netloc, "X-Amz-Date": now.astimezone(UTC).strftime(TIMESTAMP)}
    covered = {name.lower(): value for name, value in sent.items()}
    signature = sigv4_signature(
        key, method=method, path=target.path or "/", query=target.query, headers=covered, body=body
    )
    scope = f"{key.id}/{covered['x-amz-date'][:8]}/{key.region}/{key.service}/aws4_request"
    names = ";".join(sorted(covered))
    return {
        **sent,
        "Authorization": f"{ALGORITHM} Credential={scope}, SignedHeaders={names}, Signature={signature}",
    }


def is_normalized(path: str) -> bool:
    """Whether an absolute path has no empty segment before its end, and neither `.` nor `..`."""
    *folders, last = path.split("/")[1:]
    return all(folders) and {".", ".."}.isdisjoint([*folders, last])


def _canonical_query(query: str) -> str:
    """The pairs of a query in the order of their names and values, each with `=`."""
    pairs = [pair.partition("=") for pair in query.split("&")] if query else []
    return "&".join(f"{name}={value}" for name, value in sorted((name, value) for name, _, value in pairs))


def _hmac(secret: bytes, text: str) -> bytes:
    return hmac.digest(secret, text.encode(), "sha256")
