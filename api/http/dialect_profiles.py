"""Profiles of the dialects: their error responses, and the credentials that they accept.

Each dialect registers its profile, once, when it is mounted. The profile of a request is that with the longest matching
prefix; AWS's is the default. Decision 0048.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus

from aiohttp import web
from msgspec import Struct

from batchq.api.http.credentials import Scheme
from batchq.api.http.http import BODY_LIMIT, FailureKind, error_response

TARGET = "X-Amz-Target"


class RequestFailure(Struct, frozen=True, kw_only=True):
    """A request that failed."""

    kind: FailureKind
    #: As AWS's dialect responds.
    status: HTTPStatus
    #: AWS's name of the error.
    code: str
    #: The text for the caller.
    message: str
    request_id: str
    #: What was raised; a dialect finds errors of its own here.
    error: Exception


class DialectProfile(Struct, frozen=True, kw_only=True):
    """The shape of a dialect's errors, and how its callers are authenticated."""

    #: Of its error responses in OpenAPI.
    name: str
    #: The prefix of the dialect's paths; the whole path if `target` is set.
    prefix: str
    #: The prefix of X-Amz-Target; empty if the path alone determines the dialect.
    target: str = ""
    #: Returns the response to a failed request.
    error_response: Callable[[RequestFailure], web.Response]
    #: The shape of the body of an error response; None: AWS's.
    error_body: type[Struct] | None = None
    #: The statuses of errors that AWS's dialect does not have, with their texts for OpenAPI.
    more_errors: Mapping[HTTPStatus, str] = {}
    #: The headers that every error response has, besides that of the request id.
    error_headers: tuple[str, ...] = ()
    #: The header with the request id, which every response has.
    request_id_header: str
    schemes: frozenset[Scheme]
    #: Whether a POST without a body needs no Content-Type header.
    bodyless_post: bool = False
    #: Whether its paths are HTML pages, which /openapi.json does not describe. Links of other sites may open them.
    #: Bodies are forms instead of JSON, and all methods but GET and HEAD need the Origin of this server.
    has_pages: bool = False
    #: The page to which a browser that loads `/` is redirected; empty: the JSON of `/` is sent.
    home: str = ""
    #: The largest body in bytes.
    max_body: int = BODY_LIMIT
    #: The paths that need no credential; None: as the gate decides.
    public: re.Pattern[str] | None = None

    def is_page(self, path: str) -> bool:
        """Whether a browser shows `path`, decoded, as a page."""
        return self.has_pages or (bool(self.home) and path == "/")

    def is_public(self, path: str) -> bool:
        """Whether `path`, decoded, needs no credential."""
        return self.public is not None and self.public.fullmatch(path) is not None


def _aws_response(failure: RequestFailure) -> web.Response:
    return error_response(failure.status, failure.code, failure.message)


AWS = DialectProfile(
    name="aws",
    prefix="",
    error_response=_aws_response,
    error_headers=("x-amzn-ErrorType",),
    request_id_header="x-amzn-RequestId",
    schemes=frozenset({Scheme.SIGV4}),
    home="/ui/",
)


class DialectProfiles:
    """The profiles of an application."""

    def __init__(self) -> None:
        self._profiles = [AWS]

    def add(self, profile: DialectProfile) -> None:
        self._profiles.append(profile)
        self._profiles.sort(key=lambda each: (len(each.target), len(each.prefix)), reverse=True)

    def __iter__(self) -> Iterator[DialectProfile]:
        return iter(self._profiles)

    def find(self, path: str, target: str) -> DialectProfile:
        """The profile of a request to `path`, decoded, with the X-Amz-Target `target` or an empty text."""
        for profile in self._profiles:
            covers = path == profile.prefix if profile.target else path.startswith(profile.prefix)
            if covers and target.startswith(profile.target):
                return profile
        return AWS


PROFILE = web.RequestKey("dialect_profile", DialectProfile)
"""The profile of a request. The middleware sets it."""

PROFILES = web.AppKey("dialect_profiles", DialectProfiles)


def register_dialect_profile(app: web.Application, profile: DialectProfile) -> None:
    """Use `profile` for all requests with its prefix, whether or not they name an operation."""
    app[PROFILES].add(profile)
