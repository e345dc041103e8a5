"""Who calls, as far as the request says. Signatures are not checked here."""

import re
from dataclasses import dataclass

_SCOPE = re.compile(r"Credential=([\w.+=@-]{1,128})/[0-9]{8}/([a-z0-9-]{1,32})/[a-z0-9-]{1,32}/aws4_request(?![^,\s])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """`access_key` is empty and `region` None where the request is not signed."""

    access_key: str = ""
    region: str | None = None


def caller(authorization: str) -> Caller:
    """What the credential scope of an Authorization header tells."""
    scope = _SCOPE.search(authorization)
    return Caller() if scope is None else Caller(access_key=scope[1], region=scope[2])
