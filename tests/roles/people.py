"""The users of the tests of roles, and a server that each of them calls with a key."""

import asyncio
import http.client
import json
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from batchq.accounts.files import AccessKeyFile, AccountsFile, new_key
from batchq.domain.access.accounts import Account, Directory, User
from batchq.domain.enums import Role
from batchq.server.bootstrap import serving
from batchq.settings import Auth, Runtime, Settings
from batchq.system.clock import wall_time
from tests.support.answers import parsed

# lab has team below it, and other beside it. `barred` is shut out of all queues but one.
PEOPLE = Directory(
    accounts={
        "lab": Account(name="lab"),
        "team": Account(name="team", parent="lab"),
        "other": Account(name="other"),
        "barred": Account(name="barred", queues=("still",)),
    },
    users={
        user.name: user
        for user in (
            User(name="ada", account="lab"),
            User(name="bob", account="lab"),
            User(name="cora", account="lab", coordinates=frozenset({"lab"})),
            User(name="oda", role=Role.OPERATOR),
            User(name="amy", role=Role.ADMIN),
            User(name="cy", account="team"),
            User(name="rory"),
            User(name="eve", account="other"),
            User(name="zoe", account="barred"),
        )
    },
)
# Headers of an answer that differ between two requests.
MODELARTS = "/v2/a-project"
VARYING_HEADERS = {"date", "content-length", "x-amzn-requestid", "x-request-id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    path: str
    body: object = None
    method: str = "POST"
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`headers`: without those that differ between equal requests."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def content(self):
        return parsed(self.body, dict(self.headers).get("content-type"))

    @property
    def denied(self):
        return (self.status, dict(self.headers).get("x-amzn-errortype")) == (403, "AccessDeniedException")


class Server:
    """Sends requests to a server on loopback, each signed with the key of its user."""

    def __init__(self, url, keys, data):
        self.url = url
        self.keys = keys
        self.data = data
        self._at = urlsplit(url)

    def send(self, user, request):
        headers = {"Content-Type": "application/json", **(request.headers or {})}
        data = b"" if request.body is None else json.dumps(request.body).encode()
        signed = AWSRequest(request.method, f"http://{self._at.netloc}{request.path}", headers=headers, data=data)
        if request.path.startswith(MODELARTS):  # its clients send a token
            signed.headers["X-Auth-Token"] = f"{self.keys[user].access_key}.{self.keys[user].secret_key}"
        else:
            SigV4Auth(self.keys[user], "batch", "us-east-1").add_auth(signed)
        connection = http.client.HTTPConnection(self._at.hostname, self._at.port, timeout=60)
        try:
            connection.request(request.method, request.path, body=data, headers=dict(signed.headers.items()))
            answer = connection.getresponse()
            kept = sorted(
                (name.lower(), value) for name, value in answer.getheaders() if name.lower() not in VARYING_HEADERS
            )
            return Answer(status=answer.status, headers=tuple(kept), body=answer.read())
        finally:
            connection.close()

    def whole(self, user, request):
        """All pages of a list, concatenated."""
        answer = self.send(user, request)
        token = answer.content.get("nextToken") if answer.status == HTTPStatus.OK else None
        while token is not None:
            page = self.send(user, replace(request, body=request.body | {"nextToken": token}))
            answer, token = replace(answer, body=answer.body + page.body), page.content.get("nextToken")
        cursor = (
            answer.content.get("nextCursor") if request.method == "GET" and answer.status == HTTPStatus.OK else None
        )
        while cursor is not None:
            page = self.send(user, replace(request, path=f"{request.path}&cursor={cursor}"))
            answer, cursor = replace(answer, body=answer.body + page.body), page.content.get("nextCursor")
        return answer

    def do(self, user, operation, **members):
        """Call an operation of AWS Batch that must succeed. Returns the content of the response."""
        answer = self.send(user, batch(operation, **members))
        assert answer.status == HTTPStatus.OK, answer
        return answer.content


def batch(operation, **members):
    return Request(path=f"/v1/{operation.lower()}", body=members)


def logs(operation, **members):
    content = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"Logs_20140328.{operation}"}
    return Request(path="/", body=members, headers=content)


def sagemaker(operation, **members):
    content = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"SageMaker.{operation}"}
    return Request(path="/", body=members, headers=content)


@contextmanager
def serve(data, **changes):
    """A server with simulated containers in a thread, and a key for each user. `changes`: of its settings."""
    data.mkdir(mode=0o700)
    AccountsFile(data).change(lambda _: PEOPLE)
    keys = {name: new_key(name, wall_time()) for name in PEOPLE.users}
    for key in keys.values():
        AccessKeyFile(data).add(key)
    fixed = {"data": data, "port": 0, "runtime": Runtime.SIMULATED, "auth": Auth.SIGV4}
    settings = Settings(**fixed, requests_per_second=1_000_000, **changes)
    begun = Future()
    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(asyncio.run, _serve(settings, begun))
        wait([begun, served], return_when=FIRST_COMPLETED)
        if served.done():
            served.result()
        loop, end, url = begun.result()
        try:
            yield Server(url, {name: Credentials(key.id, key.secret) for name, key in keys.items()}, data)
        finally:
            loop.call_soon_threadsafe(end.set)
            served.result()


async def _serve(settings, begun):
    end = asyncio.Event()
    async with serving(settings) as served:
        begun.set_result((asyncio.get_running_loop(), end, served.urls[0]))
        await end.wait()
