"""A user has the same rights by the unix socket as with a key, and no content of a request changes the user."""

import json
import shutil
import tempfile
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from batchq.accounts.files import AccessKeyFile, AccountsFile, new_key
from batchq.domain.access.accounts import Account, Directory, User
from batchq.domain.enums import Role
from batchq.system.clock import wall_time
from tests.support.local_users import needs_root, requests_as
from tests.support.service import serving_forked

pytestmark = needs_root

# Users that every Debian has, with the roles of the matrix.
UIDS = {"daemon": 1, "bin": 2, "sys": 3, "games": 5, "man": 6}
PEOPLE = Directory(
    accounts={name: Account(name=name) for name in ("lab", "other")},
    users={
        item.name: item
        for item in (
            User(name="daemon", account="lab"),
            User(name="bin", account="lab", coordinates=frozenset({"lab"})),
            User(name="sys", role=Role.OPERATOR),
            User(name="games", role=Role.ADMIN),
            User(name="man", account="other"),
        )
    },
)
REQUESTS = [
    ("POST", "/v1/batchq/whoami", {}),
    ("POST", "/v1/batchq/describeaccounts", {}),
    ("POST", "/v1/batchq/describeusers", {"name": "daemon"}),
    ("POST", "/v1/batchq/listkeys", {}),
    ("POST", "/v1/batchq/createuser", {"name": "new", "account": "nowhere"}),
    ("POST", "/v1/batchq/updateaccount", {"name": "nowhere"}),
    ("POST", "/v1/batchq/leavesafemode", {"purge": 1}),
    ("POST", "/v1/batchq/jobs/ab/forcefail", {}),
    ("POST", "/v1/batchq/listjobs", {}),
    ("POST", "/v1/describejobqueues", {}),
    ("POST", "/v1/createschedulingpolicy", {}),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("GET", "/metrics", None),
]
CHANGING = {"date", "content-length", "x-amzn-requestid"}
NOW = ("now", "key", "eventLoop")


@pytest.fixture(scope="module")
def keys():
    return {name: new_key(name, wall_time()) for name in PEOPLE.users}


@pytest.fixture(scope="module")
def server(keys):
    """The URL of TCP, and the path of the socket."""
    folder = Path(tempfile.mkdtemp(prefix="batchq-socket-"))
    folder.chmod(0o755)
    data, path = folder / "data", folder / "batchq.sock"
    data.mkdir(mode=0o700)
    AccountsFile(data).change(lambda _: PEOPLE)
    for key in keys.values():
        AccessKeyFile(data).add(key)
    flags = ("--auth", "sigv4", "--socket", str(path), "--socket-mode", "666")
    games = keys["games"]
    with serving_forked(data, "--runtime", "simulated", *flags, key=(games.id, games.secret)) as service:
        yield service.url, path
    shutil.rmtree(folder)


def headers_of(url, method, path, body, key):
    content = b"" if body is None else json.dumps(body).encode()
    signed = AWSRequest(method, url + path, headers={"Content-Type": "application/json"}, data=content)
    SigV4Auth(Credentials(key.id, key.secret), "batch", "us-east-1").add_auth(signed)
    return dict(signed.headers.items())


def signed(url, key):
    """The responses to the requests over TCP."""
    found = []
    for method, path, body in REQUESTS:
        connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
        content = b"" if body is None else json.dumps(body).encode()
        connection.request(method, path, body=content, headers=headers_of(url, method, path, body, key))
        answer = connection.getresponse()
        found.append((answer.status, answer.getheaders(), answer.read()))
        connection.close()
    return found


def plain(answer):
    """Without what differs between two answers of the same meaning."""
    status, headers, body = answer
    kept = sorted((name, value) for name, value in headers if name.lower() not in CHANGING)
    content = json.loads(body)
    return status, kept, {name: value for name, value in content.items() if name not in NOW}


@pytest.mark.parametrize("name", UIDS)
def test_the_socket_gives_the_same_rights_as_a_key(server, keys, name):
    url, path = server

    by_key = signed(url, keys[name])
    by_socket = requests_as(UIDS[name], path, REQUESTS)

    assert [plain(answer) for answer in by_socket] == [plain(answer) for answer in by_key]
    assert json.loads(by_socket[0][2])["key"] is None


@pytest.mark.fault("SE45")
@pytest.mark.parametrize("uid", [UIDS["daemon"], 65_534, 54_321])
def test_the_signature_of_another_user_has_no_effect(server, keys, uid):
    url, path = server
    forged = headers_of(url, *REQUESTS[0], keys["games"]) | {"X-Forwarded-User": "games", "User": "games"}

    ((status, _, body),) = requests_as(uid, path, REQUESTS[:1], headers=forged)

    assert (status, json.loads(body).get("user")) == ((200, "daemon") if uid == UIDS["daemon"] else (403, None))
