"""`batchq console`: the link, the browser that opens it, and the URLs that `submit` and `run` print."""

import stat
import webbrowser

import pytest

from batchq.cli.server_commands import DISPLAYS, job_url
from tests.cli.servers import NOWHERE, batchq, job_id, row
from tests.service.waiting import until

LOGIN = "/v1/batchq/consolelogin"
PATH = "/ui/login?code=a-code"
NOTICE = "batchq: the console is opened in your browser; if no page appears: batchq console --print\n"
JOB = job_id("8f2c51a7")


@pytest.fixture
def console(native, monkeypatch, tmp_path):
    """A server that knows itself by another URL than its clients do, and a machine without a graphical browser."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    for name in DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    native.responses[LOGIN] = {"url": f"http://inside.example:80{PATH}", "path": PATH}
    native.rows = [row()]
    return native


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """The links that the user's browser was started with."""
    record, browser = tmp_path / "links", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {record}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    return lambda: record.read_text().split() if record.exists() else []


def pages(server):
    return [content["page"] for _, path, content in server.requests if path == LOGIN]


async def test_without_a_graphical_browser_the_link_is_printed(console, capsys):
    assert await batchq("console") == 0

    assert capsys.readouterr() == (f"{console.url}{PATH}\n", "")
    assert pages(console) == ["/ui/"]


@pytest.fixture(params=[None, 0o700, 0o755], ids=["no runtime directory", "a runtime directory", "an open one"])
def folder(request, tmp_path, monkeypatch):
    """The folder of the file with the link."""
    cache, given = tmp_path / "home/.cache/batchq", tmp_path / "run"
    if request.param is None:
        return cache
    given.mkdir()
    given.chmod(request.param)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(given))
    return given if request.param == 0o700 else cache


@pytest.mark.fault("SE70")
@pytest.mark.process
async def test_the_browser_reads_the_link_from_a_file_of_the_user(console, opened, capsys, folder):
    assert await batchq("console") == 0

    file = folder / "batchq-console.html"
    until(lambda: opened() == [file.as_uri()])
    assert f'content="0; url={console.url}{PATH}"' in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert capsys.readouterr() == ("", NOTICE)


@pytest.mark.process
async def test_the_browser_opens_a_link_without_a_code_itself(console, opened, tmp_path):
    console.responses[LOGIN] = {"url": "http://inside.example:80/ui/", "path": "/ui/"}
    assert await batchq("console") == 0

    until(lambda: opened() == [f"{console.url}/ui/"])
    assert not (tmp_path / "home").exists()


@pytest.mark.fault("SE77")
@pytest.mark.parametrize("kind", ["a file", "a folder of others", "a link"])
async def test_without_a_private_directory_for_the_file_the_link_is_printed(console, opened, capsys, tmp_path, kind):
    cache = tmp_path / "home/.cache"
    match kind:
        case "a file":
            (tmp_path / "home").write_text("not a directory")
        case "a folder of others":
            (cache / "batchq").mkdir(parents=True)
            (cache / "batchq").chmod(0o777)
        case _:
            cache.mkdir(parents=True)
            (cache / "batchq").symlink_to(tmp_path)
    assert await batchq("console") == 0

    assert capsys.readouterr() == (f"{console.url}{PATH}\n", "")
    assert opened() == []


async def test_the_link_is_printed_on_request(console, opened, capsys):
    assert await batchq("console", "--print") == 0

    assert capsys.readouterr() == (f"{console.url}{PATH}\n", "")
    assert opened() == []


@pytest.mark.process
async def test_a_browser_that_does_not_start_is_replaced_by_the_link(console, monkeypatch, capsys):
    monkeypatch.setenv("BROWSER", "/no/such/browser")
    assert await batchq("console") == 0

    assert capsys.readouterr().out == f"{console.url}{PATH}\n"


JOBS = {
    "train": f"/ui/jobs/{JOB}",
    "8f2c51a7": f"/ui/jobs/{JOB}",
    "8f2c51a7:3": f"/ui/jobs/{JOB}:3",
    "8f2c51a7#1": f"/ui/jobs/{JOB}/nodes/1",
}


@pytest.mark.parametrize("handle", JOBS)
async def test_the_link_leads_to_the_page_of_a_job(console, handle):
    assert await batchq("console", handle, "--print") == 0

    assert pages(console) == [JOBS[handle]]


async def test_the_link_leads_to_the_page_of_a_group(console):
    group = f"g-{'0' * 20}"

    assert await batchq("console", group, "--print") == 0

    assert pages(console) == [f"/ui/groups/{group}"]


async def test_a_job_that_does_not_exist_has_no_link(console, capsys):
    console.rows = []

    assert await batchq("console", "train") == 1

    assert pages(console) == []
    assert "no job or group has the name" in capsys.readouterr().err


async def test_a_server_that_cannot_be_reached_has_its_exit_status(console, capsys):
    assert await batchq("console", "--url", NOWHERE) == 3

    assert capsys.readouterr().out == ""


def test_the_url_of_a_job_is_known_by_tcp_only():
    assert job_url("https://batch.lab:22824", "a#1") == "https://batch.lab:22824/ui/jobs/a/nodes/1"
    assert job_url("unix:///run/batchq.sock", "a") == ""
