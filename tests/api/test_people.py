"""Accounts, users and keys by HTTP: who may do what about whom, and what he is told where he may not."""

from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count

import pytest
from aiohttp.test_utils import TestClient, TestServer

from batchq.accounts.admin import AccountAdmin
from batchq.accounts.files import AccessKeyFile, machine_user, new_key
from batchq.api import app as api
from batchq.api.authentication import CALLER, open_gate
from batchq.api.native.accounts import dialect
from batchq.audit.audit_log import Journal
from batchq.cli.main import main
from batchq.domain.access.accounts import Caller, Role, UserName
from tests.support.builders import NOON
from tests.support.observing import request_metrics

FOUND, REFUSED, NOBODY, FORBIDDEN = 200, 400, 404, 403
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


def office_of(data):
    """Its clock goes a second a look."""
    ticks = count()
    return AccountAdmin(data, now=lambda: NOON + timedelta(seconds=next(ticks)))


@pytest.fixture(scope="module")
def set_up(tmp_path_factory):
    data = tmp_path_factory.mktemp("people")
    office_of(data).create_key("first", Caller(user="root", role=Role.ADMIN))
    for command in SET_UP:
        assert main([*command.split(), "--data", str(data)]) == 0
    return {it.name: it.read_bytes() for it in data.iterdir()}


@pytest.fixture
def data(set_up, tmp_path):
    for name, content in set_up.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    return tmp_path


@pytest.fixture
async def ask(data):
    """Ask as a user; the status and the answer."""
    office = office_of(data)

    @asynccontextmanager
    async def believe(request):
        request[CALLER] = office.accounts.load().caller(request.headers["User"], key="BQIA", request_id="a-request")
        yield

    app = api.build(requests=request_metrics(), dialects=[dialect(office)], health=well, hosts=[], gate=believe)
    async with TestClient(TestServer(app)) as client:

        async def ask(user, operation, said=None):
            answer = await client.post(f"/v1/batchq/{operation.lower()}", json=said or {}, headers={"User": user})
            return answer.status, await answer.json()

        yield ask


ASKING = ("amy", "oda", "cora", "ada")
# What each asks, and what amy (admin), oda (operator), cora (coordinator of lab), ada (of the team) are answered.
TABLE = [
    ("CreateAccount", {"name": "new", "parent": "lab"}, [FOUND, FOUND, FORBIDDEN, FORBIDDEN]),
    ("CreateAccount", {"name": "new", "allowance": {"privileged": True}}, [FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    ("UpdateAccount", {"name": "lab", "limits": {"queued": 5}}, [FOUND, FOUND, FORBIDDEN, FORBIDDEN]),
    ("UpdateAccount", {"name": "lab", "allowance": None}, [FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    ("DeleteAccount", {"name": "other"}, [REFUSED, REFUSED, FORBIDDEN, FORBIDDEN]),
    ("DescribeAccounts", {}, [FOUND, FOUND, FOUND, FORBIDDEN]),
    ("DescribeAccounts", {"name": "team"}, [FOUND, FOUND, FOUND, FORBIDDEN]),
    ("DescribeAccounts", {"name": "other"}, [FOUND, FOUND, NOBODY, FORBIDDEN]),
    ("CreateUser", {"name": "new", "account": "team"}, [FOUND, FOUND, FOUND, FORBIDDEN]),
    ("CreateUser", {"name": "new", "account": "other"}, [FOUND, FOUND, NOBODY, FORBIDDEN]),
    ("CreateUser", {"name": "new", "account": "gone"}, [NOBODY, NOBODY, NOBODY, FORBIDDEN]),
    ("CreateUser", {"name": "new", "account": "team", "role": "OPERATOR"}, [FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    ("CreateUser", {"name": "new", "account": "team", "coordinates": ["team"]}, [FOUND, FOUND, FORBIDDEN, FORBIDDEN]),
    ("UpdateUser", {"name": "ada", "account": "lab"}, [FOUND, FOUND, FOUND, FORBIDDEN]),
    ("UpdateUser", {"name": "ada", "account": "other"}, [FOUND, FOUND, NOBODY, FORBIDDEN]),
    ("UpdateUser", {"name": "ada", "role": "ADMIN"}, [FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    ("UpdateUser", {"name": "eve", "account": "team"}, [FOUND, FOUND, NOBODY, FORBIDDEN]),
    ("UpdateUser", {"name": "boss", "account": "other"}, [FOUND, FORBIDDEN, NOBODY, FORBIDDEN]),
    ("UpdateUser", {"name": "boss", "role": "USER"}, [FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    ("DeleteUser", {"name": "bob"}, [FOUND, FOUND, FOUND, FORBIDDEN]),
    ("DeleteUser", {"name": "eve"}, [FOUND, FOUND, NOBODY, FORBIDDEN]),
    ("DeleteUser", {"name": "boss"}, [FOUND, FORBIDDEN, FORBIDDEN, FORBIDDEN]),
    ("DescribeUsers", {}, [FOUND, FOUND, FOUND, FORBIDDEN]),
    ("DescribeUsers", {"name": "eve"}, [FOUND, FOUND, NOBODY, FORBIDDEN]),
    ("CreateKey", {}, [FOUND, FOUND, FOUND, FOUND]),
    ("CreateKey", {"user": "ada"}, [FOUND, FOUND, FOUND, FOUND]),
    ("CreateKey", {"user": "bob"}, [FOUND, FOUND, FOUND, NOBODY]),
    ("CreateKey", {"user": "eve"}, [FOUND, FOUND, NOBODY, NOBODY]),
    ("CreateKey", {"user": "boss"}, [FOUND, FORBIDDEN, FORBIDDEN, NOBODY]),
    ("CreateKey", {"user": "gone"}, [NOBODY, NOBODY, NOBODY, NOBODY]),
    ("ListKeys", {}, [FOUND, FOUND, FOUND, FOUND]),
    ("ListKeys", {"user": "eve"}, [FOUND, FOUND, NOBODY, NOBODY]),
    ("WhoAmI", {}, [FOUND, FOUND, FOUND, FOUND]),
]


def remembered(data):
    return (data / "accounts.json").read_bytes(), (data / "keys.json").read_bytes(), Journal(data).read()[0]


@pytest.mark.parametrize("row", TABLE, ids=lambda it: f"{it[0]}-{it[1]}")
@pytest.mark.parametrize("user", ASKING)
async def test_each_may_do_what_his_role_may(ask, data, row, user):
    operation, said, answers = row
    before = remembered(data)
    meant = answers[ASKING.index(user)]

    status, answer = await ask(user, operation, said)

    assert status == meant, answer
    after = remembered(data)
    changes = status == FOUND and not operation.startswith(("Describe", "List", "Who"))
    assert (after != before) == changes
    assert len(after[2]) == len(before[2]) + changes, "what is done leaves one line, and what is not leaves none"


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ("UpdateUser", {"name": "{}"}),
        ("DeleteUser", {"name": "{}"}),
        ("DescribeUsers", {"name": "{}"}),
        ("CreateKey", {"user": "{}"}),
        ("ListKeys", {"user": "{}"}),
    ],
)
@pytest.mark.parametrize("user", ["cora", "ada"])
async def test_who_is_not_to_be_known_is_as_if_he_were_not_there(ask, operation, said, user):
    there, not_there = [await ask(user, operation, dict.fromkeys(said, name)) for name in ("eve", "zed")]

    assert str(there).replace("eve", "zed") == str(not_there)


@pytest.mark.parametrize("name", ["bob", machine_user()], ids=["deleted", "of before there were users"])
async def test_nobody_gets_what_another_left_by_taking_his_name(ask, name):
    await ask("amy", "DeleteUser", {"name": "bob"})

    told = [await ask(caller, "CreateUser", {"name": name, "account": "team"}) for caller in ("cora", "oda")]

    assert [status for status, _ in told] == [FORBIDDEN, FOUND]


async def test_a_coordinator_is_told_of_his_accounts_alone(ask):
    _, users = await ask("cora", "DescribeUsers")
    _, accounts = await ask("cora", "DescribeAccounts")

    assert [it["name"] for it in users["users"]] == ["ada", "bob", "boss", "cora"]
    assert [it["name"] for it in accounts["accounts"]] == ["lab", "team"]


@pytest.mark.fault("SE07")
async def test_everybody_changes_his_own_key_for_another(ask, data):
    _, old = await ask("ada", "CreateKey")
    _, new = await ask("ada", "CreateKey")

    status, _ = await ask("ada", "UpdateKey", {"id": old["id"], "state": "DISABLED"})
    again, _ = await ask("ada", "UpdateKey", {"id": old["id"], "state": "ACTIVE"})

    assert (status, again) == (FOUND, FORBIDDEN), "a key that was taken from him is not his to take back"
    _, told = await ask("ada", "ListKeys")
    assert {it["id"]: it["state"] for it in told["keys"]} == {old["id"]: "DISABLED", new["id"]: "ACTIVE"}
    assert "secret" not in str(told)
    assert (await ask("cora", "UpdateKey", {"id": old["id"], "state": "ACTIVE"}))[0] == FOUND
    assert (await ask("ada", "DeleteKey", {"id": old["id"]}))[0] == FOUND


@pytest.mark.parametrize(("user", "status"), [("amy", FOUND), ("oda", FORBIDDEN), ("cora", FORBIDDEN), ("eve", NOBODY)])
async def test_the_key_of_an_admin_is_for_admins_to_take_back(ask, user, status):
    _, key = await ask("boss", "CreateKey")

    assert (await ask(user, "DeleteKey", {"id": key["id"]}))[0] == status


async def test_a_key_that_is_not_to_be_known_is_as_if_it_were_not_there(ask):
    _, key = await ask("eve", "CreateKey")
    unknown = key["id"][::-1]

    answers = [await ask("ada", "DeleteKey", {"id": it}) for it in (key["id"], unknown)]

    assert str(answers[0]).replace(key["id"], unknown) == str(answers[1])


async def test_the_key_of_nobody_is_there_for_operators_alone(ask, data):
    left = new_key(UserName("gone"), NOON)
    AccessKeyFile(data).add(left)

    told = {user: str(await ask(user, "ListKeys")) for user in ASKING}

    assert {user for user, keys in told.items() if left.id in keys} == {"amy", "oda"}
    assert [(await ask(user, "DeleteKey", {"id": left.id}))[0] for user in ("cora", "oda")] == [NOBODY, FOUND]


async def test_everybody_is_told_who_he_is(ask):
    _, me = await ask("ada", "WhoAmI")

    assert (me["user"], me["account"], me["role"], me["queues"]) == ("ada", "team", "USER", ["default"])
    assert me["allowance"]["volumes"] == ["/data"]
    assert [it["account"] for it in me["limits"]] == ["team", "lab", "root"]


async def test_what_is_done_is_noted_with_who_did_it_by_which_request(ask, data):
    await ask("cora", "CreateUser", {"name": "new", "account": "team"})

    act = Journal(data).read()[0][-1].act
    assert (act.user, act.account, act.key, act.request_id) == ("cora", "lab", "BQIA", "a-request")
    assert (act.operation, act.about) == ("CreateUser", "user/new")


@pytest.mark.parametrize(
    "said", [{}, {"name": 5}, {"name": "x", "more": 1}, {"name": "x", "role": "KING"}, {"name": "a b"}]
)
async def test_what_has_not_its_shape_is_refused(ask, said):
    status, answer = await ask("amy", "CreateUser", said)

    assert (status, answer["__type"]) == (REFUSED, "ClientException")


@pytest.mark.fault("SE40")
async def test_a_server_that_asks_nobody_for_a_signature_does_not_change_who_may_do_what(data):
    before = remembered(data)
    gate = open_gate(UserName("machine"), now=lambda: NOON)
    app = api.build(requests=request_metrics(), dialects=[dialect(office_of(data))], health=well, hosts=[], gate=gate)
    async with TestClient(TestServer(app)) as client:
        for operation, said, _ in TABLE:
            answer = await client.post(f"/v1/batchq/{operation.lower()}", json=said)
            reads = operation.startswith(("Describe", "List", "WhoAmI"))

            assert answer.status == (FOUND if reads else FORBIDDEN), operation
            assert reads or "on the server's machine" in (await answer.json())["message"]
    assert remembered(data) == before
