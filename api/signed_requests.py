"""What the verifications of signed requests have in common: the request, header lines, the allowed skew, refusals."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Protocol

from msgspec import Struct

from batchq.api.http import FailureKind, HttpRefusal

SKEW = timedelta(minutes=5)  # AWS: five, in either direction
TIMESTAMP = "%Y%m%dT%H%M%SZ"
#: The secret for unknown keys: their verification takes as long as that of known ones.
DUMMY_SECRET = "no access key has this secret"  # noqa: S105 - of no key


class SigningKey(Protocol):
    """An access key, as far as verification needs it."""

    @property
    def secret(self) -> str: ...


class SignedRequest(Struct, frozen=True, kw_only=True):
    """A request as it was received."""

    method: str
    #: The raw path with the query.
    target: str
    #: One pair of name and value for each header line; names may repeat.
    headers: Sequence[tuple[str, str]]
    body: bytes


def header_lines(sent: SignedRequest) -> dict[str, list[str]]:
    """The values of each header, by its name in lower case."""
    lines: dict[str, list[str]] = {}
    for name, value in sent.headers:
        lines.setdefault(name.lower(), []).append(value)
    return lines


def signed_headers(
    names: Sequence[str], lines: Mapping[str, Sequence[str]], *, required: frozenset[str], prefix: str
) -> Mapping[str, str]:
    """The values of the headers `names`, which a signature covers.

    Raises HttpRefusal unless they include `required`, Content-Type and the headers that begin with `prefix`, if these
    are present; and if one of them appears twice, because its value is ambiguous.
    """
    must = required | {name for name in lines if name.startswith(prefix) or name == "content-type"}
    if missing := sorted(must - set(names)):
        raise incomplete(f"The signature must cover the header {missing[0][:100]}.")
    if wrong := [name for name in names if len(lines.get(name, ())) != 1]:
        raise incomplete(f"The header {wrong[0][:100]} is listed as signed, but is not present exactly once.")
    if odd := [name for name in names if not lines[name][0].isascii()]:  # clients sign ASCII only
        raise incomplete(f"The value of the signed header {odd[0][:100]} is not ASCII.")
    return {name: lines[name][0] for name in names}


def check_time(date: str, *, header: str, now: datetime) -> None:
    """Raise HttpRefusal unless `date`, the value of `header`, is within SKEW of `now`, the wall clock's time."""
    try:
        at = datetime.strptime(date, TIMESTAMP).replace(tzinfo=UTC)
    except ValueError:
        raise incomplete(f"{header} must have the form 20260101T000000Z.") from None
    if abs(now - at) > SKEW:
        raise mismatch(f"Signature expired or not yet valid: the server's time is {now.strftime(TIMESTAMP)}.")


def wrong_signature() -> HttpRefusal:
    """The same for an unknown key and a wrong secret."""
    return mismatch("The request signature we calculated does not match yours.")


def mismatch(message: str) -> HttpRefusal:
    return refusal("InvalidSignatureException", message)


def incomplete(message: str) -> HttpRefusal:
    return refusal("IncompleteSignatureException", message)


def refusal(code: str, message: str, *, kind: FailureKind = FailureKind.BAD_CREDENTIAL) -> HttpRefusal:
    return HttpRefusal(message, status=HTTPStatus.FORBIDDEN, code=code, kind=kind)
