"""Who is logged in, and what others are not shown, on a server with keys."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from batchq.accounts.files import AccessKeyFile, KeyState
from tests.console.browser.test_pages import ALL
from tests.console.browser.visitor import NARROW, WIDE
from tests.roles import people
from tests.roles.people import Request
from tests.service.job_queue import ENDLESS, playing

OTHER_SITE = "http://wiki.example/"
JOB = re.compile("{[^}]*}")  # in the paths of pages
NO_JOB = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    with people.serve(tmp_path_factory.mktemp("guarded") / "data") as stage:
        yield stage


@pytest.fixture
def guarded(visit, stage):
    """Visit the server with keys."""
    return lambda **options: visit(stage.url, **options)


def link(stage, user, page="/ui/"):
    answer = stage.send(user, Request(path="/v1/batchq/consolelogin", body={"page": page}))
    return answer.content["path"]


def log_in(visitor, stage, user, page="/ui/"):
    """A tab of a visitor who has logged in."""
    tab = visitor.open(link(stage, user, page))
    tab.get_by_role("button", name=f"Log in as {user}").click()
    tab.wait_for_url(f"**{page}")
    return tab


def enter_key(page, key, secret):
    page.get_by_label("Access key id").fill(key)
    page.get_by_label("Secret").fill(secret)
    page.get_by_role("button", name="Log in").click()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_of_the_login_are_accessible_and_fit(guarded, stage, scheme, size):
    visitor = guarded(color_scheme=scheme, viewport=size)
    for path in ("/ui/login", link(stage, "ada")):
        page = visitor.open(path)
        findings = Axe().run(page)

        assert findings.violations_count == 0, findings.generate_report()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= size["width"]


def test_a_link_logs_in_one_browser_after_a_click(guarded, stage):
    url = link(stage, "ada", "/ui/settings")
    first, second = guarded(), guarded()
    page, late = first.open(url), second.open(url)
    expect(page.get_by_text("Log in as ada?")).to_be_visible()

    page.get_by_role("button", name="Log in as ada").click()
    page.wait_for_url("**/ui/settings")
    late.get_by_role("button", name="Log in as ada").click()

    expect(page.locator("header")).to_contain_text("ada")
    expect(late.get_by_role("alert")).to_contain_text("This link was used")
    second.forgive("403")


def test_a_key_logs_in_by_the_form_and_returns_to_the_page(guarded, stage):
    visitor, key = guarded(), stage.keys["ada"]
    page = visitor.open("/ui/settings")

    enter_key(page, key.access_key, "wrong")
    expect(page.get_by_role("alert")).to_contain_text("wrong")
    enter_key(page, key.access_key, key.secret_key)

    page.wait_for_url("**/ui/settings")
    expect(page.locator("header")).to_contain_text("ada")
    visitor.forgive("403")


def test_a_logout_ends_the_session_in_all_tabs(guarded, stage):
    visitor = guarded()
    page = log_in(visitor, stage, "ada")
    other = visitor.open("/ui/settings")

    page.locator("summary", has_text="ada").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()

    other.reload()
    expect(other.get_by_role("heading", name="Log in")).to_be_visible()


def test_a_disabled_key_ends_its_sessions_and_their_open_pages(guarded, stage):
    keys, key = AccessKeyFile(stage.data), stage.keys["bob"].access_key
    visitor = guarded()
    page, live = log_in(visitor, stage, "bob", "/ui/settings"), visitor.open("/ui/jobs")

    keys.set_state(key, KeyState.DISABLED)
    try:
        page.reload()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        expect(live.get_by_role("heading", name="Log in")).to_be_visible(timeout=30_000)
    finally:
        keys.set_state(key, KeyState.ACTIVE)
    visitor.forgive("401")


def test_an_altered_cookie_is_no_session(guarded, stage):
    visitor = guarded()
    page = log_in(visitor, stage, "ada", "/ui/settings")
    (cookie,) = [cookie for cookie in visitor.context.cookies() if "batchq" in cookie["name"]]
    start, end = cookie["value"][:-6], cookie["value"][-6:]

    visitor.context.add_cookies([cookie | {"value": start + end.swapcase()}])
    page.reload()

    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_a_link_from_another_site_opens_the_page_of_the_session(guarded, stage):
    visitor = guarded()
    log_in(visitor, stage, "ada")
    page = other_site(visitor, f'<a href="{stage.url}/ui/settings">settings</a>')

    page.get_by_role("link").click()

    expect(page.locator("header")).to_contain_text("ada")


@pytest.mark.parametrize("path", ["/ui/logout", "/ui/login"])
def test_a_form_of_another_site_is_refused(guarded, stage, path):
    visitor = guarded()
    log_in(visitor, stage, "ada")
    form = f'<form method="post" action="{stage.url}{path}"><input name="code" value="x"><button>go</button></form>'
    page = other_site(visitor, form)

    page.get_by_role("button").click()
    page.wait_for_url(f"**{path}")

    expect(page.locator("body")).to_contain_text("403")
    expect(visitor.open("/ui/").locator("header")).to_contain_text("ada")
    visitor.forgive("403")


def test_a_user_sees_nothing_of_a_user_of_another_account_by_any_url(guarded, stage):
    job = submit(stage, "ada", "confidential")
    visitor = guarded()
    page = log_in(visitor, stage, "eve")

    for path in ALL.values():
        shown = content(page, JOB.sub(job, path))
        assert "confidential" not in str(shown), path
        if path.startswith("/ui/jobs/"):
            assert shown == content(page, JOB.sub(NO_JOB, path)), path
            assert shown[0] in (403, 404), path
    assert "confidential" in log_in(guarded(), stage, "ada").request.get("/ui/jobs").text()


def content(page, path):
    """The status and the text of a page, without the id of the request."""
    response = page.request.get(path)
    return response.status, re.sub("request [0-9a-f-]{36}", "", response.text())


def submit(stage, user, name):
    """The id of a new job."""
    container = playing(ENDLESS)
    stage.do(user, "RegisterJobDefinition", jobDefinitionName="any", type="container", containerProperties=container)
    return stage.do(user, "SubmitJob", jobName=name, jobQueue="default", jobDefinition="any")["jobId"]


def other_site(visitor, body):
    """A tab with a page of another site."""
    page = visitor.context.new_page()
    page.route(f"{OTHER_SITE}**", lambda route: route.fulfill(body=f"<!DOCTYPE html>{body}", content_type="text/html"))
    page.goto(OTHER_SITE)
    return page
