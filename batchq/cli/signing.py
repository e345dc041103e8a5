"""Request signatures by botocore's signer; a module of its own because importing botocore is slow."""

from collections.abc import Mapping

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


def sign(
    url: str, body: bytes | None, headers: Mapping[str, str], *, key: str, secret: str, region: str
) -> Mapping[str, str]:
    """The headers of a GET, or of a POST of `body`, with the signature added."""
    request = AWSRequest("GET" if body is None else "POST", url, headers=dict(headers), data=body or b"")
    SigV4Auth(Credentials(key, secret), "batch", region).add_auth(request)
    return dict(request.headers.items())
