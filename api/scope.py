"""What the credential of a request says, checked or not: which key, and for which region."""

import re

from msgspec import Struct

_SCOPE = re.compile(r"Credential=([\w.+=@-]{1,128})/[0-9]{8}/([a-z0-9-]{1,32})/[a-z0-9-]{1,32}/aws4_request(?![^,\s])")


class Scope(Struct, frozen=True, kw_only=True):
    """`access_key` is empty and `region` None where the request is not signed."""

    access_key: str = ""
    region: str | None = None


def scope(authorization: str) -> Scope:
    """What the credential scope of an Authorization header tells."""
    found = _SCOPE.search(authorization)
    return Scope() if found is None else Scope(access_key=found[1], region=found[2])
