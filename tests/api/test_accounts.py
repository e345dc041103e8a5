"""Operations on accounts, users and keys by HTTP: permissions and visibility."""

from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count

import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

from batchq.accounts.admin import AccountAdmin
from batchq.accounts.files import AccessKeyFile, machine_user, new_key
from batchq.api.auth.authentication import CALLER, open_gate
from batchq.api.native.accounts import admin_operations
from batchq.api.serving import app as api
from batchq.audit import Journal
from batchq.cli.main import main
from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.enums import Role
from tests.support.builders import NOON
from tests.support.described import watch
from tests.support.parts import make_parts
from tests.support.stubs import request_metrics

FOUND, REFUSED, UNKNOWN_ID, FORBIDDEN = 200, 400, 404, 403
SET_UP = (
    "account add lab --queues default --volumes /data",
    "account add team --parent lab",
    "account add other",
    "user add amy --role admin",
    "user add oda --role operator",
    "user add cora --account lab --coordinates lab",
    "user add ada --account team",
    "user add bob --account team",
    "user add eve --account other",
    "user add boss --account team --role admin",
)


async def well():
    return {"status": "ok"}


def accounts_admin_of(data):
    """Its clock advances by a second at each call."""
    ticks = count()
    return AccountAdmin(data, now=lambda: NOON + timedelta(seconds=next(ticks)))


@pytest.fixture(scope="module")
def set_up(tmp_path_factory):
    data = tmp_path_factory.mktemp("people")
    accounts_admin_of(data).create_key("first", Caller(user="root", role=Role.ADMIN))
    for command in SET_UP:
        assert main([*command.split(), "--data", str(data)]) == 0
    return {path.name: path.read_bytes() for path in data.iterdir()}


@pytest.fixture
def data(set_up, tmp_path):
    for name, content in set_up.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    return tmp_path


@pytest.fixture
async def send(data):
    """Send a request as a user; returns the status and the parsed response."""
    accounts_admin = accounts_admin_of(data)

    @asynccontextmanager
    async def trust(request):
        caller = accounts_admin.accounts.load().caller(request.headers["User"], key="BQIA")
        request[CALLER] = None if caller is None else replace(caller, request_id="a-request")
        yield

    app = api.build(
        requests=request_metrics(),
        dialects=[admin_operations.dialect(make_parts(accounts=accounts_admin))],
        health=well,
        hosts=[],
        gate=trust,
    )
    app.middlewares.insert(0, watch(undescribed := []))
    async with TestClient(TestServer(app)) as client:

        async def send(user, operation, body=None):
            answer = await client.post(f"/v1/batchq/{operation.lower()}", json=body or {}, headers={"User": user})
            return answer.status, await answer.json()

        yield send
    assert undescribed == []


CALLERS = ("amy", "oda", "cora", "ada")
# The operation, its body, and the status for amy (admin), oda (operator), cora (coordinator of lab), ada (of team).
TABLE = [
    ("CreateAccount", {"name": "new", "parent": "lab"}, [FOUND, FOUND, FORBIDDEN, FORBIDDEN]),
    ("CreateAccount", {"name": "new", "allowance": {"privileged": True}}, [FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    ("UpdateAccount", {"name": "lab", "limits": {"queued": 5}}, [FOUND, FOUND, FORBIDDEN, FORBIDDEN]),
    ("UpdateAccount", {"name": "lab", "allowance": None}, [FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    ("DeleteAccount", {"name": "other"}, [REFUSED, REFUSED, FORBIDDEN, FORBIDDEN]),
    ("DescribeAccounts", {}, [FOUND, FOUND, FOUND, FORBIDDEN]),
    ("DescribeAccounts", {"name": "team"}, [FOUND, FOUND, FOUND, FORBIDDEN]),
    ("DescribeAccounts", {"name": "other"}, [FOUND, FOUND, UNKNOWN_ID, FORBIDDEN]),
    ("CreateUser", {"name": "new", "account": "team"}, [FOUND, FOUND, FOUND, FORBIDDEN]),
    ("CreateUser", {"name": "new", "account": "other"}, [FOUND, FOUND, UNKNOWN_ID, FORBIDDEN]),
    ("CreateUser", {"name": "new", "account": "gone"}, [UNKNOWN_ID, UNKNOWN_ID, UNKNOWN_ID, FORBIDDEN]),
    ("CreateUser", {"name": "new", "account": "team", "role": "OPERATOR"}, [FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    ("CreateUser", {"name": "new", "account": "team", "coordinates": ["team"]}, [FOUND, FOUND, FORBIDDEN, FORBIDDEN]),
    ("UpdateUser", {"name": "ada", "account": "lab"}, [FOUND, FOUND, FOUND, FORBIDDEN]),
    ("UpdateUser", {"name": "ada", "account": "other"}, [FOUND, FOUND, UNKNOWN_ID, FORBIDDEN]),
    ("UpdateUser", {"name": "ada", "role": "ADMIN"}, [FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    ("UpdateUser", {"name": "eve", "account": "team"}, [FOUND, FOUND, UNKNOWN_ID, FORBIDDEN]),
    ("UpdateUser", {"name": "boss", "account": "other"}, [FOUND, FORBIDDEN, UNKNOWN_ID, FORBIDDEN]),
    ("UpdateUser", {"name": "boss", "role": "USER"}, [FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    ("DeleteUser", {"name": "bob"}, [FOUND, FOUND, FOUND, FORBIDDEN]),
    ("DeleteUser", {"name": "eve"}, [FOUND, FOUND, UNKNOWN_ID, FORBIDDEN]),
    ("DeleteUser", {"name": "boss"}, [FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    ("DescribeUsers", {}, [FOUND, FOUND, FOUND, FORBIDDEN]),
    ("DescribeUsers", {"name": "eve"}, [FOUND, FOUND, UNKNOWN_ID, FORBIDDEN]),
    ("CreateKey", {}, [FOUND, FOUND, FOUND, FOUND]),
    ("CreateKey", {"user": "ada"}, [FOUND, FOUND, FOUND, FOUND]),
    ("CreateKey", {"user": "bob"}, [FOUND, FOUND, FOUND, UNKNOWN_ID]),
    ("CreateKey", {"user": "eve"}, [FOUND, FOUND, UNKNOWN_ID, UNKNOWN_ID]),
    ("CreateKey", {"user": "boss"}, [FOUND, FORBIDDEN, FORBIDDEN, UNKNOWN_ID]),
    ("CreateKey", {"user": "gone"}, [UNKNOWN_ID, UNKNOWN_ID, UNKNOWN_ID, UNKNOWN_ID]),
    ("ListKeys", {}, [FOUND, FOUND, FOUND, FOUND]),
    ("ListKeys", {"user": "eve"}, [FOUND, FOUND, UNKNOWN_ID, UNKNOWN_ID]),
    ("WhoAmI", {}, [FOUND, FOUND, FOUND, FOUND]),
]


def stored(data):
    return (data / "accounts.json").read_bytes(), (data / "keys.json").read_bytes(), Journal(data).read()[0]


def changes(operation, status):
    return status == FOUND and not operation.startswith(("Describe", "List", "Who"))


def calls_of_servers():
    """The calls of each row of the table, divided so that only the last call of a server may change what is stored."""
    for operation, body, statuses in TABLE:
        calls_of_row = [*zip(CALLERS, statuses, strict=True)]
        changing = [call for call in calls_of_row if changes(operation, call[1])]
        others = [call for call in calls_of_row if not changes(operation, call[1])]
        for calls in ([*others, *changing[:1]], *([call] for call in changing[1:])):
            yield pytest.param(operation, body, calls, id=f"{calls[-1][0]}-{operation}-{body}")


@pytest.mark.parametrize(("operation", "body", "calls"), [*calls_of_servers()])
async def test_each_role_has_its_permissions(send, data, operation, body, calls):
    for user, expected in calls:
        before = stored(data)

        status, answer = await send(user, operation, body)

        assert status == expected, (user, answer)
        after = stored(data)
        assert (after != before) == changes(operation, status), user
        assert len(after[2]) == len(before[2]) + changes(operation, status), "one audit record for each change"


@pytest.mark.parametrize("user", ["cora", "ada"])
async def test_an_invisible_user_or_key_is_reported_as_not_found(send, user):
    _, key = await send("eve", "CreateKey")
    members = {"UpdateUser": "name", "DeleteUser": "name", "DescribeUsers": "name"}

    for operation, member in (members | {"CreateKey": "user", "ListKeys": "user", "DeleteKey": "id"}).items():
        hidden, absent = (key["id"], key["id"][::-1]) if member == "id" else ("eve", "zed")
        answers = [await send(user, operation, {member: name}) for name in (hidden, absent)]
        assert str(answers[0]).replace(hidden, absent) == str(answers[1]), operation


@pytest.mark.parametrize("name", ["bob", machine_user()], ids=["deleted", "of before there were users"])
async def test_a_recreated_user_gets_nothing_of_the_deleted_user(send, name):
    await send("amy", "DeleteUser", {"name": "bob"})

    answers = [await send(caller, "CreateUser", {"name": name, "account": "team"}) for caller in ("cora", "oda")]

    assert [status for status, _ in answers] == [FORBIDDEN, FOUND]


async def test_a_coordinator_sees_only_the_coordinated_accounts(send):
    _, users = await send("cora", "DescribeUsers")
    _, accounts = await send("cora", "DescribeAccounts")

    assert [user["name"] for user in users["users"]] == ["ada", "bob", "boss", "cora"]
    assert [account["name"] for account in accounts["accounts"]] == ["lab", "team"]


@pytest.mark.fault("SE07")
async def test_every_user_can_rotate_the_own_key(send, data):
    _, old = await send("ada", "CreateKey")
    _, new = await send("ada", "CreateKey")

    status, _ = await send("ada", "UpdateKey", {"id": old["id"], "state": "DISABLED"})
    again, _ = await send("ada", "UpdateKey", {"id": old["id"], "state": "ACTIVE"})

    assert (status, again) == (FOUND, FORBIDDEN), "a user enabled the own disabled key"
    _, answers = await send("ada", "ListKeys")
    assert {key["id"]: key["state"] for key in answers["keys"]} == {old["id"]: "DISABLED", new["id"]: "ACTIVE"}
    assert "secret" not in str(answers)
    assert (await send("cora", "UpdateKey", {"id": old["id"], "state": "ACTIVE"}))[0] == FOUND
    assert (await send("ada", "DeleteKey", {"id": old["id"]}))[0] == FOUND


@pytest.mark.parametrize(
    ("user", "status"), [("amy", FOUND), ("oda", FORBIDDEN), ("cora", FORBIDDEN), ("eve", UNKNOWN_ID)]
)
async def test_only_admins_can_revoke_keys_of_admins(send, user, status):
    _, key = await send("boss", "CreateKey")

    assert (await send(user, "DeleteKey", {"id": key["id"]}))[0] == status


async def test_keys_of_deleted_users_are_visible_to_operators_only(send, data):
    left = new_key(UserName("gone"), NOON)
    AccessKeyFile(data).add(left)

    answers = {user: str(await send(user, "ListKeys")) for user in CALLERS}

    assert {user for user, keys in answers.items() if left.id in keys} == {"amy", "oda"}
    assert [(await send(user, "DeleteKey", {"id": left.id}))[0] for user in ("cora", "oda")] == [UNKNOWN_ID, FOUND]


async def test_who_am_i_returns_the_caller(send):
    _, me = await send("ada", "WhoAmI")

    assert (me["user"], me["account"], me["role"], me["queues"]) == ("ada", "team", "USER", ["default"])
    assert me["allowance"]["volumes"] == ["/data"]
    assert [limit["account"] for limit in me["limits"]] == ["team", "lab", "root"]


async def test_changes_are_audited_with_user_and_request(send, data):
    await send("cora", "CreateUser", {"name": "new", "account": "team"})

    act = Journal(data).read()[0][-1].record
    assert (act.user, act.account, act.key, act.request_id) == ("cora", "lab", "BQIA", "a-request")
    assert (act.operation, act.resource) == ("CreateUser", "user/new")


@pytest.mark.parametrize(
    "body", [{}, {"name": 5}, {"name": "x", "more": 1}, {"name": "x", "role": "KING"}, {"name": "a b"}]
)
async def test_bodies_of_another_shape_are_refused(send, body):
    status, answer = await send("amy", "CreateUser", body)

    assert (status, answer["__type"]) == (REFUSED, "ClientException")


@pytest.mark.fault("SE40")
async def test_a_server_without_authentication_does_not_change_accounts(data):
    before = stored(data)
    gate = open_gate(UserName("machine"), now=lambda: NOON)
    app = api.build(
        requests=request_metrics(),
        dialects=[admin_operations.dialect(make_parts(accounts=accounts_admin_of(data)))],
        health=well,
        hosts=[],
        gate=gate,
    )
    async with TestClient(TestServer(app)) as client:
        for operation, body, _ in TABLE:
            answer = await client.post(f"/v1/batchq/{operation.lower()}", json=body)
            reads = operation.startswith(("Describe", "List", "WhoAmI"))

            assert answer.status == (FOUND if reads else FORBIDDEN), operation
            assert reads or "on the server's machine" in (await answer.json())["message"]
    assert stored(data) == before
