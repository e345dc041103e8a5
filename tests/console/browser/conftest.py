"""A Chromium, and a server with simulated containers, for all tests of a worker."""

from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.console.browser.visitor import PATIENCE, Visitor, chromium_path
from tests.console.world import World
from tests.support.service import serving_forked

FOLDER = Path(__file__).parent

expect.set_options(timeout=PATIENCE)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker("browser")


@pytest.fixture(scope="package")
def chromium():
    """Without a browser tests fail, not skip."""
    path = chromium_path()
    if path is None:
        pytest.fail("Chromium is missing: run .ci/tools", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def service(tmp_path_factory):
    with serving_forked(tmp_path_factory.mktemp("console") / "data", "--runtime", "simulated") as service:
        yield service
        assert service.blocked_by() == []


@pytest.fixture(scope="package")
def world(service):
    return World(service)


@pytest.fixture
def visit(chromium, service):
    """Visit the console as a new visitor, with options of `Browser.new_context`. No page may have reported an error."""
    visitors = []

    def visit(url=service.url, **options):
        visitors.append(Visitor(chromium, url, **options))
        return visitors[-1]

    yield visit
    for other_visitor in visitors:
        other_visitor.close()
    assert [problem for other_visitor in visitors for problem in other_visitor.problems] == []


@pytest.fixture
def visitor(visit):
    return visit()
