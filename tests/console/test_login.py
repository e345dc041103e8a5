"""Login and logout of the console on a server with keys: by link, by key, and what attackers try."""

import asyncio
import json
import re
import shutil
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, urlsplit

import aiohttp
import pytest
import pytest_asyncio
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from batchq.accounts.files import AccessKeyFile, AccountsFile, KeyState, machine_user, new_key
from batchq.api.auth.sessions import PLAIN, Sessions
from batchq.api.console.login import INSECURE, OLD_LINK, TOO_MANY, WRONG_KEY
from batchq.cli.main import main
from batchq.domain.access.accounts import Directory, User
from batchq.domain.enums import Role
from batchq.settings import Auth
from batchq.store.inspection import examine_data
from batchq.system.clock import wall_time
from tests.console.conftest import Browser, console_of
from tests.support.certificates import Authority
from tests.support.inline import TMPFS

PEOPLE = Directory(users={name: User(name=name, role=Role.ADMIN) for name in ("ada", "bob")})
SAME = {"Sec_Fetch_Site": "same-origin"}
NAVIGATES = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}


class Visitor:
    """A browser with a cookie jar of one cookie, on a server with keys of ada and bob."""

    def __init__(self, browser, data, keys):
        self.browser, self.data, self.keys = browser, data, keys
        self.url = browser.url
        self.cookie = None

    async def open(self, path, *, status=200, **headers):
        return await self.browser.open(path, status=status, **self._with_cookie(headers))

    async def post(self, path, form, *, status=303, **headers):
        answer = await self.browser.post(path, form, status=status, **self._with_cookie(headers))
        for line in answer.headers.getall("Set-Cookie", ()):
            name, _, value = line.partition(";")[0].partition("=")
            self.cookie = f"{name}={value}" if value else None
        return answer

    async def call(self, operation, members, *, user="ada"):
        """Send a request that is signed with the user's key, and return the answer."""
        return await self._send("POST", f"/v1/{operation}", json.dumps(members).encode(), user)

    async def get(self, path, *, user="ada"):
        """The answer to a GET that is signed with the user's key."""
        return await self._send("GET", path, b"", user)

    async def _send(self, method, path, body, user):
        key, headers = self.keys[user], {"Content-Type": "application/json"}
        request = AWSRequest(method, self.url + path, headers=headers, data=body)
        SigV4Auth(Credentials(key.id, key.secret), "batch", "us-east-1").add_auth(request)
        sent = dict(request.headers.items())
        async with self.browser._session.request(method, request.url, data=body, headers=sent) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def link(self, user="ada", **members):
        """The path of a one-time link of the user."""
        made = await self.call("batchq/consolelogin", members, user=user)
        assert made["url"] == self.url + made["path"]
        return made["path"]

    async def code(self, user="ada"):
        return code_of(await self.link(user))

    async def log_in(self, user="ada", **members):
        return await self.post("/ui/login", self.key_of(user) | members)

    def key_of(self, user):
        return {"key_id": self.keys[user].id, "secret": self.keys[user].secret}

    async def is_logged_in(self):
        answer = await self.browser.open("/ui/", status=200 if self.cookie else 303, **self._with_cookie({}))
        return answer.status == 200

    def _with_cookie(self, headers):
        return ({"Cookie": self.cookie} if self.cookie else {}) | headers


def code_of(link):
    return re.search(r"code=([\w-]+)", link)[1]


@asynccontextmanager
async def visitor_of(data, people):
    """A visitor of a server with these users, each with a key."""
    data.mkdir(mode=0o700)
    AccountsFile(data).change(lambda _: people)
    keys = {name: new_key(name, wall_time()) for name in people.users}
    for key in keys.values():
        AccessKeyFile(data).add(key)
    async with console_of(data, auth=Auth.SIGV4) as browser:
        yield Visitor(browser, data, keys)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_visitor():
    with TemporaryDirectory(prefix="batchq-", dir=TMPFS) as folder:
        async with visitor_of(Path(folder) / "data", PEOPLE) as visitor:
            yield visitor


@pytest.fixture
def visitor(shared_visitor):
    """A visitor who has not logged in yet, of a server that other tests use too."""
    return Visitor(shared_visitor.browser, shared_visitor.data, shared_visitor.keys)


@pytest.fixture
async def own_visitor(tmp_path):
    """The same, of a server that no other test uses: for tests that change keys, or fail to log in."""
    async with visitor_of(tmp_path / "data", PEOPLE) as visitor:
        yield visitor


async def test_a_page_redirects_to_the_login_and_the_login_back_to_the_page(visitor):
    page = "/ui/jobs?state=FAILED&name=a%20b"
    asked = await visitor.open(page, status=303)
    assert asked.headers["Location"] == f"/ui/login?next={quote(page, safe='/')}"

    shown = await visitor.open(asked.headers["Location"])
    following = re.search(r'name="next" value="([^"]*)"', shown.body)[1].replace("&amp;", "&")
    done = await visitor.log_in(next=following)

    assert done.headers["Location"] == page
    assert "ada" in (await visitor.open("/ui/")).text


async def test_a_link_asks_for_the_user_and_logs_in_once(visitor):
    link = await visitor.link(page="/ui/queues")

    first, again = await visitor.open(link), await visitor.open(link)
    assert "Log in as ada ?" in first.text
    assert first.body == again.body, "opening the link does not use it"

    done = await visitor.post("/ui/login", {"code": code_of(link), "next": "/ui/queues"})
    assert done.headers["Location"] == "/ui/queues"
    assert "ada" in (await visitor.open("/ui/")).text

    visitor.cookie = None
    assert OLD_LINK in (await visitor.post("/ui/login", {"code": code_of(link)}, status=403)).text
    assert OLD_LINK in (await visitor.open(link, status=403)).text


async def test_a_used_link_leads_the_user_who_is_logged_in_to_the_page(visitor):
    link = await visitor.link(page="/ui/queues")
    form = {"code": code_of(link), "next": "/ui/queues"}
    await visitor.post("/ui/login", form)

    assert (await visitor.open(link, status=303)).headers["Location"] == "/ui/queues"
    assert (await visitor.post("/ui/login", form)).headers["Location"] == "/ui/queues"
    assert await visitor.is_logged_in()


@pytest.mark.fault("SE52")
@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}], ids=str
)
async def test_the_form_of_another_site_neither_logs_in_nor_uses_the_code(visitor, headers):
    code = await visitor.code("bob")

    refused = await visitor.post("/ui/login", {"code": code}, status=403, **headers)

    assert "Set-Cookie" not in refused.headers
    await visitor.post("/ui/login", {"code": code})


@pytest.mark.fault("SE52")
async def test_a_link_of_another_user_says_whose_session_would_end(visitor):
    await visitor.log_in("ada")
    link = await visitor.link("bob")

    shown = await visitor.open(link, Sec_Fetch_Site="cross-site", **NAVIGATES)
    assert "You are logged in as ada. That session will end." in shown.text

    before = visitor.cookie
    await visitor.post("/ui/login", {"code": code_of(link)})
    assert "bob" in (await visitor.open("/ui/")).text
    visitor.cookie = before
    await visitor.open("/ui/", status=303)


async def test_a_link_from_another_site_opens_a_page_and_nothing_else(visitor):
    await visitor.log_in()

    await visitor.open("/ui/", Sec_Fetch_Site="cross-site", **NAVIGATES)
    await visitor.open(
        "/ui/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="iframe", status=403
    )
    await visitor.open("/healthz", Sec_Fetch_Site="cross-site", status=403, **NAVIGATES)


async def test_the_cookie_of_loopback_is_not_readable_by_scripts_and_lasts_an_hour(visitor):
    done = await visitor.log_in()

    value, *attributes = done.headers["Set-Cookie"].split("; ")
    assert value.startswith(f"batchq={visitor.keys['ada'].id}.")
    assert attributes == ["Max-Age=3600", "Path=/ui/", "HttpOnly", "SameSite=Lax"]
    assert visitor.keys["ada"].secret not in str(done.headers)
    assert "on any port" in (await visitor.browser.open("/ui/login")).text


async def test_the_cookie_behind_a_proxy_with_tls_is_bound_to_the_host(visitor):
    here = urlsplit(visitor.url).netloc
    done = await visitor.post("/ui/login", visitor.key_of("ada"), Origin=f"https://{here}")

    value, *attributes = done.headers["Set-Cookie"].split("; ")
    assert value.startswith("__Host-batchq=")
    assert attributes == ["Max-Age=43200", "Path=/", "Secure", "HttpOnly", "SameSite=Lax"]
    assert "ada" in (await visitor.open("/ui/")).text


@pytest.mark.fault("SE52")
async def test_each_login_has_a_cookie_of_its_own_and_a_planted_one_is_not_taken_over(visitor):
    await visitor.log_in("bob")
    planted = visitor.cookie

    await visitor.log_in("ada")

    assert visitor.cookie != planted
    assert "ada" in (await visitor.open("/ui/")).text
    visitor.cookie = f"{planted}; {visitor.cookie}"
    await visitor.open("/ui/", status=303)


async def test_a_logout_ends_the_session_also_for_a_copy_of_the_cookie(visitor):
    await visitor.log_in()
    copy = visitor.cookie

    left = await visitor.post("/ui/logout", {})

    assert left.headers["Location"] == "/ui/login"
    assert visitor.cookie is None
    visitor.cookie = copy
    await visitor.open("/ui/", status=303)


@pytest.mark.fault("SE50")
async def test_another_site_cannot_log_a_user_out(visitor):
    await visitor.log_in()

    await visitor.post("/ui/logout", {}, status=403, Origin="http://evil.example")
    await visitor.open("/ui/logout", status=405, Sec_Fetch_Site="cross-site", **NAVIGATES)

    assert "ada" in (await visitor.open("/ui/")).text


@pytest.mark.fault("SE51")
@pytest.mark.parametrize("change", ["disabled", "deleted", "no user"])
async def test_a_key_or_a_user_that_is_gone_ends_its_sessions_with_the_next_request(own_visitor, change):
    await own_visitor.log_in()
    key = own_visitor.keys["ada"].id
    match change:
        case "disabled":
            AccessKeyFile(own_visitor.data).set_state(key, KeyState.DISABLED)
        case "deleted":
            AccessKeyFile(own_visitor.data).delete(key)
        case _:
            AccountsFile(own_visitor.data).change(lambda _: Directory(users={"bob": PEOPLE.users["bob"]}))

    await own_visitor.open("/ui/", status=403 if change == "no user" else 303)
    shown = await own_visitor.open("/ui/login")
    assert "Access key id" in shown.text
    assert WRONG_KEY in (await own_visitor.post("/ui/login", own_visitor.key_of("ada"), status=403)).text


@pytest.mark.fault("SE51")
async def test_without_a_session_parts_of_pages_and_forms_are_refused_and_not_redirected(visitor):
    await visitor.open("/ui/", status=401, X_Fragment="live")
    await visitor.open("/ui/", status=401, Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors", Sec_Fetch_Dest="empty")
    refused = await visitor.post("/ui/", {}, status=401)
    assert refused.headers["Cache-Control"] == "no-store"


@pytest.mark.fault("SE51")
async def test_no_spelling_of_a_public_path_opens_a_page(visitor):
    spellings = (
        ("/ui/static/../queues", 404),
        ("/ui/static/%2e%2e/queues", 404),
        ("/ui/static/..%2fqueues", 404),
        ("/ui/static//../", 404),
        ("/ui/login/", 303),
        ("/ui/login%2F..%2Fqueues", 303),
        ("/ui/login;/queues", 303),
        ("/ui/Login", 303),
        ("/ui", 303),
        ("/ui//", 303),
        ("/%75i/", 303),
    )
    for path, status in spellings:
        await visitor.open(path, status=status)


@pytest.mark.fault("SE51")
async def test_a_session_is_not_a_credential_of_the_api_and_a_signature_not_one_of_pages(visitor):
    await visitor.log_in()

    answer = await visitor.browser.post(
        "/v1/describejobs", b"{}", status=403, Content_Type="application/json", Cookie=visitor.cookie
    )
    assert answer.headers["x-amzn-ErrorType"] == "MissingAuthenticationTokenException"
    key = visitor.keys["ada"]
    await visitor.browser.open("/ui/", status=303, Authorization=f"Bearer {key.id}.{key.secret}")


FORMS = {
    "an unknown key": {"key_id": "BQIASTRANGERSTRANGE2"},
    "a wrong secret": {"secret": "wrong"},
    "an empty secret": {"secret": ""},
    "no key": {"key_id": ""},
    "odd characters": {"key_id": "a\0<b>\ud83d\ude00", "secret": "é\0"},
}


@pytest.mark.fault("SE52")
@pytest.mark.parametrize("case", FORMS)
async def test_a_wrong_key_is_refused_with_the_same_page(own_visitor, case):
    form = own_visitor.key_of("ada") | FORMS[case]

    refused = await own_visitor.post(
        "/ui/login", {k: v.encode("utf-8", "replace").decode() for k, v in form.items()}, status=403
    )

    assert WRONG_KEY in refused.text
    assert refused.body == (await own_visitor.post("/ui/login", {"key_id": "x", "secret": "x"}, status=403)).body
    assert "Set-Cookie" not in refused.headers


@pytest.mark.fault("SE52")
async def test_after_five_wrong_logins_no_key_is_checked_and_links_still_log_in(own_visitor):
    for _ in range(5):
        await own_visitor.post("/ui/login", own_visitor.key_of("ada") | {"secret": "wrong"}, status=403)

    assert TOO_MANY in (await own_visitor.post("/ui/login", own_visitor.key_of("ada"), status=429)).text
    await own_visitor.post("/ui/login", {"code": "a-guess"}, status=403)
    await own_visitor.post("/ui/login", {"code": await own_visitor.code()})
    assert "ada" in (await own_visitor.open("/ui/")).text


@pytest.mark.fault("SE75")
async def test_wrong_logins_with_one_key_keep_no_other_key_of_the_address_out(own_visitor):
    for _ in range(5):
        await own_visitor.post("/ui/login", own_visitor.key_of("ada") | {"secret": "wrong"}, status=403)
        await own_visitor.post("/ui/login", {"key_id": "", "secret": "x"}, status=403)
        await own_visitor.post("/ui/login", {"code": "a-guess"}, status=403)

    await own_visitor.log_in("bob")
    assert await own_visitor.is_logged_in()


@pytest.mark.fault("SE53")
@pytest.mark.parametrize(
    "page", ["https://evil.example/", "//evil.example/", "/ui/\\evil", "/ui/../v1/x", "/ui/a\r\nX: y"]
)
async def test_a_login_leads_to_no_other_site(visitor, page):
    shown = await visitor.open(f"/ui/login?next={quote(page, safe='')}")
    assert "evil" not in shown.body
    done = await visitor.log_in(next=page)

    assert (done.headers["Location"], "X" in done.headers) == ("/ui/", False)
    again = await visitor.open(f"/ui/login?next={quote(page, safe='')}", status=303)
    assert again.headers["Location"] == "/ui/"


@pytest.mark.fault("SE53")
async def test_a_link_to_another_page_is_not_made(visitor):
    with pytest.raises(AssertionError, match="page below /ui/"):
        await visitor.link(page="https://evil.example/")


@pytest.mark.fault("SE50")
async def test_markup_in_the_query_is_escaped(visitor):
    shown = await visitor.open(
        f"/ui/login?next={quote('/ui/<script>', safe='')}&code={quote('<b>', safe='')}", status=403
    )
    assert "<script>" not in shown.body
    assert "<b>" not in shown.body


@pytest.mark.fault("SE52")
async def test_oversize_and_ambiguous_forms_are_refused(visitor):
    await visitor.post("/ui/login", {"key_id": "a" * 70_000}, status=413)
    await visitor.post("/ui/login", {"key_id": "a" * 3000}, status=400)
    await visitor.post("/ui/login", [("key_id", "a"), ("key_id", "b")], status=400)
    await visitor.post("/ui/login", b"key_id=%ff", status=400, Content_Type="application/x-www-form-urlencoded")
    await visitor.post("/ui/login", b"\xff", status=400, Content_Type="application/x-www-form-urlencoded")


@pytest.mark.fault("SE52")
async def test_a_server_beyond_loopback_without_tls_refuses_secrets_and_links(tmp_path):
    async with console_of(tmp_path / "open", auth=Auth.SIGV4, allowed_hosts=("batch.lab",)) as browser:
        at_host = {"Host": "batch.lab:22824"}
        shown = await browser.open("/ui/login", status=403, **at_host)
        assert INSECURE in shown.text
        assert "--tls-cert" in shown.text
        assert "ssh -L 22824:127.0.0.1:22824 batch.lab" in shown.text
        assert "<input" not in shown.body
        refused = await browser.post(
            "/ui/login", {"key_id": "a"}, status=403, Origin="http://batch.lab:22824", **at_host
        )
        assert INSECURE in refused.text
        behind_tls = await browser.open("/ui/login", Sec_Fetch_Site="none", **at_host)
        assert "Access key id" in behind_tls.text


def cookie_of_loopback(visitor):
    """A valid cookie of ada for connections without TLS."""
    key, instance = visitor.keys["ada"], examine_data(visitor.data).database.instance
    sessions = Sessions(find={key.id: key}.get, instance=instance, now=wall_time)
    return f"{PLAIN.name}={sessions.create(key.id, PLAIN)}"


@pytest.fixture
async def secured(tmp_path, own_visitor):
    """The users and keys of `own_visitor` on a server with TLS."""
    files = Authority(tmp_path).issue()
    data = tmp_path / "secured"
    shutil.copytree(
        own_visitor.data, data, ignore=lambda _, names: {name for name in names if not name.endswith(".json")}
    )
    tls = {"tls_cert": files.chain, "tls_key": files.key}
    async with (
        console_of(data, auth=Auth.SIGV4, **tls) as browser,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=files.trust())) as session,
    ):
        yield Visitor(Browser(session, browser.url, data), data, own_visitor.keys)


@pytest.mark.fault("SE51")
async def test_over_tls_only_the_cookie_that_is_bound_to_the_host_is_accepted(own_visitor, secured):
    done = await secured.log_in()
    assert done.headers["Set-Cookie"].startswith("__Host-batchq=")
    assert "Secure" in done.headers["Set-Cookie"]
    assert "ada" in (await secured.open("/ui/")).text
    assert "on any port" not in (await secured.browser.open("/ui/login")).text

    await own_visitor.browser.open("/ui/", Cookie=cookie_of_loopback(own_visitor))
    await secured.browser.open("/ui/", status=303, Cookie=cookie_of_loopback(secured))


@pytest.mark.fault("SE52")
async def test_over_tls_a_form_of_the_same_host_without_tls_is_refused(secured):
    await secured.post("/ui/login", secured.key_of("ada"), status=403, Origin=secured.url.replace("https", "http"))


async def test_the_command_prints_a_link_that_logs_in(visitor, monkeypatch, capsys):
    key = visitor.keys["ada"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key.id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key.secret)

    assert await asyncio.to_thread(main, ["console", "--print", "--url", visitor.url]) == 0

    link = capsys.readouterr().out.strip()
    assert "Log in as ada" in (await visitor.open(link.removeprefix(visitor.url))).text
    await visitor.post("/ui/login", {"code": code_of(link)})
    assert await visitor.is_logged_in()


async def test_pages_of_the_login_are_not_stored_and_not_framed(visitor):
    headers = (await visitor.open("/ui/login")).headers

    assert headers["Cache-Control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "same-origin"


async def test_a_static_file_needs_no_session(visitor):
    style = re.search(r'"(/ui/static/[^"]+\.css)"', (await visitor.open("/ui/login")).body)[1]
    await visitor.open(style)


async def test_requests_of_sessions_spend_from_the_bucket_of_the_user(tmp_path, visitor):
    data = visitor.data
    async with console_of(data.with_name("data2"), auth=Auth.SIGV4, requests_per_second=2) as browser:
        AccountsFile(data.with_name("data2")).change(lambda _: PEOPLE)
        AccessKeyFile(data.with_name("data2")).add(visitor.keys["ada"])
        slow = Visitor(browser, data, visitor.keys)
        await slow.log_in()
        statuses = [await _status(slow) for _ in range(8)]

    assert set(statuses) == {200, 429}


async def _status(visitor):
    session, headers = visitor.browser._session, {"Cookie": visitor.cookie}
    async with session.get(f"{visitor.url}/ui/", headers=headers, allow_redirects=False) as answer:
        return answer.status


async def test_without_authentication_there_is_no_login(browser):
    assert (await browser.open("/ui/login?next=/ui/queues", status=303)).headers["Location"] == "/ui/queues"
    assert (await browser.post("/ui/login", {})).headers["Location"] == "/ui/"
    assert (await browser.post("/ui/logout", {})).headers["Location"] == "/ui/"
    made = await browser.call("batchq/consolelogin", {"page": "/ui/queues"})
    assert made == {"url": f"{browser.url}/ui/queues", "path": "/ui/queues"}
    assert "Log out" not in (await browser.open("/ui/")).text


async def login_by_socket(path):
    """The status of CreateConsoleLogin by the unix socket, and its answer."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=str(path))) as session,
        session.post("http://localhost/v1/batchq/consolelogin", json={"page": "/ui/queues"}) as answer,
    ):
        return answer.status, await answer.json()


async def test_a_caller_of_the_socket_gets_the_url_of_tcp_if_it_needs_no_login(tmp_path):
    async with console_of(tmp_path / "data", socket=tmp_path / "b.sock") as browser:
        made = await login_by_socket(tmp_path / "b.sock")

    assert made == (200, {"url": f"{browser.url}/ui/queues", "path": "/ui/queues"})


@pytest.mark.fault("SE52")
async def test_a_caller_of_the_socket_gets_no_session_without_a_key(tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    me = machine_user()
    AccountsFile(data).change(lambda _: Directory(users={me: User(name=me, role=Role.ADMIN)}))
    async with console_of(data, socket=tmp_path / "b.sock", auth=Auth.SIGV4):
        status, answer = await login_by_socket(tmp_path / "b.sock")

    assert (status, answer["__type"]) == (403, "AccessDeniedException")
    assert "needs an access key" in answer["message"]


async def test_without_tcp_there_is_no_console_for_browsers(tmp_path):
    async with console_of(tmp_path / "data", socket=tmp_path / "b.sock", no_tcp=True):
        status, answer = await login_by_socket(tmp_path / "b.sock")

    assert (status, answer["__type"]) == (400, "ClientException")
    assert "without --no-tcp" in answer["message"]
