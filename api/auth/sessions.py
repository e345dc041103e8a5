"""Sessions of the web console: cookies signed by access keys, and one-time login codes. Decision 0060.

A cookie is `KEYID.NONCE.TIME.SIGNATURE`. The signature's key is derived from the secret of that access key and from the
instance of the server, so a cookie is valid as long as its access key is, also after a restart of the server.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from urllib.parse import quote, unquote

from itsdangerous import BadSignature, TimestampSigner
from msgspec import Struct

from batchq.accounts.files import AccessKey
from batchq.api.http.credentials import DUMMY_SECRET, secret_digest
from batchq.api.http.http import FailureKind, HttpRefusal

CODE_LIFETIME = timedelta(seconds=60)
MAX_CODES = 16  # unused codes of one access key; the oldest is dropped for a new one
MAX_ENDED = 64  # sessions of one access key that were ended; with one more, all its sessions end
MAX_PAGE_PATH = 2000  # characters
MAX_COOKIES = 64 * 1024  # characters of the Cookie headers of a request; in longer ones no session is searched
LOGIN, LOGOUT, HOME = "/ui/login", "/ui/logout", "/ui/"

_COOKIE = re.compile(r"(?P<key>[\w-]{1,128})\.(?P<nonce>[\w-]{22})\.[\w-]{1,16}\.[\w-]{43}", re.ASCII)
_PAGE = re.compile(r"/ui/[!-\[\]-~]*")  # no backslash, which browsers read as a slash


class CookieKind(Struct, frozen=True, kw_only=True):
    """A cookie for connections of one kind."""

    name: str
    lifetime: timedelta
    attributes: str

    def header(self, value: str) -> str:
        """The value of Set-Cookie."""
        return f"{self.name}={value}; Max-Age={int(self.lifetime.total_seconds())}; {self.attributes}"

    def removal(self) -> str:
        """The value of Set-Cookie that removes the cookie."""
        return f"{self.name}=; Max-Age=0; {self.attributes}"


#: Of pages that the browser loaded over TLS. No other server of the same host name can set or read it.
SECURE = CookieKind(
    name="__Host-batchq", lifetime=timedelta(hours=12), attributes="Path=/; Secure; HttpOnly; SameSite=Lax"
)
#: Of pages on loopback without TLS. Every program that listens on the same host name receives it.
PLAIN = CookieKind(name="batchq", lifetime=timedelta(hours=1), attributes="Path=/ui/; HttpOnly; SameSite=Lax")

#: Matches in a time that grows with the length of a header only: a client needs no credential to send one.
_SESSION_COOKIES = re.compile(rf"(?:^|;)[ \t]*({SECURE.name}|{PLAIN.name})[ \t]*=([^;]*)")


class Session(Struct, frozen=True, kw_only=True):
    """A login that is valid."""

    #: The id of the access key.
    key: str
    #: Distinguishes the sessions of a key.
    nonce: str
    #: Whole seconds.
    began_at: datetime


class LoginRequired(HttpRefusal):
    """The request has no valid session."""

    def __init__(self, *, login: str | None) -> None:
        """`login`: the path to which a browser is redirected; None if the request is not one for a whole page."""
        message = "You are not logged in, or your session has ended."
        super().__init__(message, status=HTTPStatus.UNAUTHORIZED, kind=FailureKind.NO_CREDENTIAL)
        self.login = login


class _Signer(TimestampSigner):
    """Signs with the time of the server's clock."""

    def __init__(self, secret: str, *, salt: str, now: Callable[[], datetime]) -> None:
        super().__init__(secret, salt=salt, key_derivation="hmac", digest_method=hashlib.sha256)
        self._now = now

    def get_timestamp(self) -> int:
        return int(self._now().timestamp())


class Sessions:
    """Creates and verifies sessions. Only the sessions that were ended are stored, in memory."""

    def __init__(self, *, find: Callable[[str], AccessKey | None], instance: str, now: Callable[[], datetime]) -> None:
        """`find` returns the key of an id if it is active, else None. `now`: the wall clock's time."""
        self._find = find
        self._instance = instance
        self._now = now
        #: When each cookie that was ended becomes invalid by itself, by key and nonce.
        self._ended: dict[tuple[str, str], datetime] = {}
        #: By key: sessions that began at this time or earlier have ended.
        self._ended_until: dict[str, datetime] = {}

    def create(self, key_id: str, kind: CookieKind) -> str | None:
        """The cookie of a new session; None unless the key is active."""
        key = self._find(key_id)
        if key is None:
            return None
        return self._signer(key.secret, kind).sign(f"{key_id}.{secrets.token_urlsafe(16)}").decode()

    def find(self, headers: Sequence[str], *, local: bool) -> Session | None:
        """The session of a request; None without a valid one. Two cookies of one name are ambiguous, and not valid.

        `headers`: the values of its Cookie headers. `local`: whether PLAIN is accepted.
        """
        if sum(map(len, headers)) > MAX_COOKIES:
            return None
        cookies = [found for header in headers for found in _SESSION_COOKIES.findall(header)]
        for kind in (SECURE, PLAIN) if local else (SECURE,):
            values = [value.strip(" \t") for name, value in cookies if name == kind.name]
            if len(values) == 1 and (session := self._verified(values[0], kind)) is not None:
                return session
        return None

    def end(self, session: Session) -> None:
        """Make the cookie of a session invalid."""
        now = self._now()
        self._ended = {key: until for key, until in self._ended.items() if until > now}
        if sum(key == session.key for key, _ in self._ended) >= MAX_ENDED:
            self._ended_until[session.key] = now
        else:
            self._ended[session.key, session.nonce] = session.began_at + SECURE.lifetime + timedelta(seconds=1)

    def _verified(self, value: str, kind: CookieKind) -> Session | None:
        parts = _COOKIE.fullmatch(value)
        if parts is None:
            return None
        key = self._find(parts["key"])
        signer = self._signer(DUMMY_SECRET if key is None else key.secret, kind)
        try:
            _, began_at = signer.unsign(value, max_age=int(kind.lifetime.total_seconds()), return_timestamp=True)
        except BadSignature:  # or expired
            return None
        session = Session(key=parts["key"], nonce=parts["nonce"], began_at=began_at)
        return None if key is None or self._has_ended(session) else session

    def _has_ended(self, session: Session) -> bool:
        until = self._ended_until.get(session.key)
        return (session.key, session.nonce) in self._ended or (until is not None and session.began_at <= until)

    def _signer(self, secret: str, kind: CookieKind) -> _Signer:
        return _Signer(secret, salt=f"batchq console session {kind.name} {self._instance}", now=self._now)


class LoginCodes:
    """The codes of one-time links, in memory. A code is valid once, for CODE_LIFETIME."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        #: The id of the access key, and the end, by the digest of the code, oldest first. A look-up by digest takes a
        #: time that does not depend on how much of a guess is right.
        self._codes: dict[bytes, tuple[str, datetime]] = {}

    def create(self, key_id: str) -> str:
        """A new code for the user of an access key."""
        now = self._now()
        self._codes = {code: (key, end) for code, (key, end) in self._codes.items() if end > now}
        of_key = [code for code, (key, _) in self._codes.items() if key == key_id]
        if len(of_key) >= MAX_CODES:
            del self._codes[of_key[0]]
        code = secrets.token_urlsafe(32)
        self._codes[secret_digest(code)] = key_id, now + CODE_LIFETIME
        return code

    def find(self, code: str) -> str | None:
        """The id of the access key of a valid code, which stays valid; None for any other."""
        key_id, end = self._codes.get(secret_digest(code), ("", self._now()))
        return key_id if end > self._now() else None

    def spend(self, code: str) -> str | None:
        """As `find`, and the code is not valid any more."""
        key_id = self.find(code)
        self._codes.pop(secret_digest(code), None)
        return key_id


def page_path(text: str) -> str | None:
    """`text` if it is the path, with a query, of a page that a browser may load after a login; else None."""
    path = text.partition("#")[0].partition("?")[0]
    if len(text) > MAX_PAGE_PATH or _PAGE.fullmatch(text) is None or path in {LOGIN, LOGOUT}:
        return None
    return text if {".", ".."}.isdisjoint(unquote(path).split("/")) else None


def login_path(page: str, *, code: str = "") -> str:
    """The path of the login page that leads to `page`. A page that `page_path` refuses is left out."""
    following = page_path(page)
    query = [f"code={code}"] if code else []
    if following is not None and following != HOME:
        query.append(f"next={quote(following, safe='/')}")
    return f"{LOGIN}?{'&'.join(query)}" if query else LOGIN
