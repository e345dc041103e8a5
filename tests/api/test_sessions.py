"""Sessions of the web console: cookies, one-time codes, and the paths to which a login leads."""

import string
from datetime import timedelta
from time import thread_time

import pytest
from msgspec.structs import replace

from batchq.api.auth.sessions import (
    CODE_LIFETIME,
    MAX_CODES,
    MAX_ENDED,
    PLAIN,
    SECURE,
    LoginCodes,
    Sessions,
    login_path,
    page_path,
)
from tests.api.signed import KEY, NOW

OTHER = replace(KEY, id="BQIAOTHEROTHEROTHER2", secret="another secret")
SECOND = timedelta(seconds=1)


class World:
    """Sessions at a time, with keys."""

    def __init__(self):
        self.now = NOW
        self.keys = {KEY.id: KEY, OTHER.id: OTHER}
        self.sessions = self.restart()

    def restart(self, instance="an-instance"):
        return Sessions(find=self._find, instance=instance, now=lambda: self.now)

    def _find(self, key_id):
        return self.keys.get(key_id)

    def find(self, *cookies, kind=SECURE, local=False, sessions=None):
        """The id of the key."""
        headers = ["; ".join(f"{kind.name}={cookie}" for cookie in cookies)]
        session = (sessions or self.sessions).find(headers, local=local)
        return session and session.key


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize(("kind", "hours"), [(SECURE, 12), (PLAIN, 1)])
def test_a_session_lasts_hours_and_no_second_longer_and_has_not_begun_in_the_future(world, kind, hours):
    cookie = world.sessions.create(KEY.id, kind)

    world.now -= timedelta(minutes=1)
    assert world.find(cookie, kind=kind, local=True) is None
    world.now += timedelta(minutes=1)
    world.now += timedelta(hours=hours)
    assert world.find(cookie, kind=kind, local=True) == KEY.id
    world.now += SECOND
    assert world.find(cookie, kind=kind, local=True) is None


@pytest.mark.fault("SE51")
def test_a_cookie_with_another_character_length_or_key_is_refused(world):
    cookie = world.sessions.create(KEY.id, SECURE)
    # The last character of the signature has two bits that encode nothing.
    accepted = [
        (at, character)
        for at in range(len(cookie) - 1)
        for character in string.printable
        if character != cookie[at] and world.find(cookie[:at] + character + cookie[at + 1 :]) is not None
    ]

    others = cookie[:-1], cookie + "A", "", f'"{cookie}"', cookie.replace(KEY.id, OTHER.id)
    assert accepted == []
    assert {world.find(other) for other in others} == {None}
    assert world.find(cookie) == KEY.id


@pytest.mark.fault("SE51")
def test_a_deleted_or_disabled_key_ends_its_sessions_and_a_new_secret_does_too(world):
    cookie = world.sessions.create(KEY.id, SECURE)

    world.keys = {KEY.id: replace(KEY, secret="replaced")}
    assert world.find(cookie) is None
    world.keys = {}
    assert world.find(cookie) is None
    assert world.sessions.create(KEY.id, SECURE) is None


@pytest.mark.fault("SE51")
def test_a_session_survives_a_restart_and_is_not_valid_on_another_instance(world):
    cookie = world.sessions.create(KEY.id, SECURE)

    assert world.find(cookie, sessions=world.restart()) == KEY.id
    assert world.find(cookie, sessions=world.restart("another-instance")) is None


@pytest.mark.fault("SE51")
def test_a_cookie_of_plain_http_is_valid_on_this_machine_and_not_as_the_cookie_of_https(world):
    plain, secure = world.sessions.create(KEY.id, PLAIN), world.sessions.create(KEY.id, SECURE)

    assert world.find(plain, kind=SECURE, local=True) is None
    assert world.find(secure, kind=PLAIN, local=True) is None
    assert world.find(plain, kind=PLAIN, local=False) is None
    assert world.find(plain, kind=PLAIN, local=True) == KEY.id


@pytest.mark.fault("SE51")
def test_two_cookies_of_one_name_are_ambiguous(world):
    ours, other = (world.sessions.create(key_id, SECURE) for key_id in (KEY.id, OTHER.id))

    assert world.find(ours, other) is None
    assert world.find(ours, ours) is None
    headers = [f"{SECURE.name}={ours}", f"{SECURE.name}={other}"]
    assert world.sessions.find(headers, local=True) is None


def test_other_cookies_do_not_disturb(world):
    cookie, plain = world.sessions.create(KEY.id, SECURE), world.sessions.create(OTHER.id, PLAIN)

    headers = [f'a=b; {SECURE.name.upper()}=x; theme="dark"; ;=;; {SECURE.name} = {cookie} ;{PLAIN.name}={plain}']
    assert world.sessions.find(headers, local=True).key == KEY.id
    assert world.sessions.find([f"{SECURE.name}=x; {PLAIN.name}={plain}"], local=True).key == OTHER.id


@pytest.mark.fault("SE96")
def test_the_largest_cookie_headers_of_a_request_take_milliseconds(world):
    cookie = f"{SECURE.name}={world.sessions.create(KEY.id, SECURE)}"
    began = thread_time()

    assert world.sessions.find([";" * 8000] * 100, local=True) is None
    assert world.sessions.find([cookie, *[" ;" * 4000] * 7], local=True).key == KEY.id
    assert world.sessions.find([cookie, *[" ;" * 4000] * 9], local=True) is None
    assert thread_time() - began < 0.05


@pytest.mark.fault("SE51")
def test_an_ended_session_stays_ended_and_others_of_the_key_do_not_end(world):
    one, two = (world.sessions.create(KEY.id, SECURE) for _ in range(2))

    world.sessions.end(world.sessions.find([f"{SECURE.name}={one}"], local=False))

    assert (world.find(one), world.find(two)) == (None, KEY.id)
    world.now += timedelta(hours=12)
    assert world.find(one) is None


@pytest.mark.fault("SE51")
def test_many_logouts_end_all_sessions_of_the_key_and_fill_no_memory(world):
    kept, other = world.sessions.create(KEY.id, SECURE), world.sessions.create(OTHER.id, SECURE)
    for _ in range(3 * MAX_ENDED):
        world.now += SECOND
        cookie = world.sessions.create(KEY.id, SECURE)
        world.sessions.end(world.sessions.find([f"{SECURE.name}={cookie}"], local=False))
        assert world.find(cookie) is None

    assert len(world.sessions._ended) == MAX_ENDED
    assert (world.find(kept), world.find(other)) == (None, OTHER.id)
    world.now += timedelta(hours=12)
    fresh = world.sessions.create(KEY.id, SECURE)
    assert world.find(fresh) == KEY.id


@pytest.mark.fault("SE52")
def test_a_code_is_valid_once_and_no_other_one(world):
    codes = LoginCodes(lambda: world.now)
    code = codes.create(KEY.id)

    for guess in ("", "x", "a" * 100_000, "\ud800", "\0"):
        assert (codes.find(guess), codes.spend(guess)) == (None, None)
    assert [codes.find(code), codes.find(code), codes.spend(code)] == [KEY.id] * 3
    assert [codes.spend(code), codes.find(code)] == [None, None]


@pytest.mark.fault("SE52")
def test_a_code_is_valid_for_a_minute(world):
    codes = LoginCodes(lambda: world.now)
    code = codes.create(KEY.id)

    world.now += CODE_LIFETIME - SECOND
    assert codes.find(code) == KEY.id
    world.now += SECOND
    assert (codes.find(code), codes.spend(code)) == (None, None)


@pytest.mark.fault("SE52")
def test_a_user_has_a_bounded_number_of_codes_and_does_not_displace_those_of_others(world):
    codes = LoginCodes(lambda: world.now)
    other = codes.create(OTHER.id)
    made = [codes.create(KEY.id) for _ in range(3 * MAX_CODES)]

    assert [codes.find(code) for code in made[-MAX_CODES:]] == [KEY.id] * MAX_CODES
    assert {codes.find(code) for code in made[:-MAX_CODES]} == {None}
    assert codes.find(other) == OTHER.id


PAGES = ["/ui/", "/ui/jobs?state=FAILED&name=a%20b", "/ui/jobs/0b0e6d0c:3", "/ui/jobs/a#log", "/ui/definitions/a%2Fb"]
FOREIGN = [
    *("", "/", "ui/", "/ui", "/uix/", "//evil.example/ui/", "https://evil.example/ui/", "javascript:alert(1)"),
    *("/\\evil.example", "/ui/\\evil.example"),
    *("/ui/../v1/describejobs", "/ui/%2e%2E/v1/describejobs", "/ui/./jobs", "/ui/..%2fv1"),
    *("/ui/a\r\nSet-Cookie: batchq=x", "/ui/a\nb", "/ui/a b", "/ui/\t", "/ui/\u2028", "/ui/é", "/ui/\x7f"),
    *(" /ui/", "/ui/\0", "/ui/" + "a" * 2000, "/ui/login", "/ui/login?next=/ui/", "/ui/logout", "/UI/"),
]


@pytest.mark.fault("SE53")
@pytest.mark.parametrize("text", FOREIGN, ids=lambda value: repr(value[:40]))
def test_another_url_does_not_follow_a_login(text):
    assert page_path(text) is None
    assert login_path(text) == "/ui/login"


def test_the_path_of_the_login_page_has_the_page_that_follows():
    assert [page_path(page) for page in PAGES] == PAGES
    assert login_path("/ui/jobs?a=b&c=%20#d") == "/ui/login?next=/ui/jobs%3Fa%3Db%26c%3D%2520%23d"
    assert login_path("/ui/", code="a-code") == "/ui/login?code=a-code"
    assert login_path("/ui/") == "/ui/login"
