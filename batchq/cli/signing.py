"""Signatures, by botocore's own signer. To load it takes longer than most commands."""

from collections.abc import Mapping

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


def sign(
    url: str, body: bytes | None, headers: Mapping[str, str], *, key: str, secret: str, region: str
) -> Mapping[str, str]:
    """The headers of a GET, or of a POST of the body, with its signature among them."""
    request = AWSRequest("GET" if body is None else "POST", url, headers=dict(headers), data=body or b"")
    SigV4Auth(Credentials(key, secret), "batch", region).add_auth(request)
    return dict(request.headers.items())
