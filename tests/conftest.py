"""Fixtures and rules of all tests."""

import gc
import os
import shutil
import sys
from contextlib import closing
from pathlib import Path

import docker
import pytest
from aiohttp.web_app import _cached_build_middleware
from docker.errors import DockerException
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.support.processes import restore_interrupts

pytest_plugins = ["tests.support.run_report"]

# `make test &` in a script: each program that a test starts is interrupted as in the foreground.
restore_interrupts()

# No example fails for its duration, nor for the duration of its generation: the machine may be loaded.
settings.register_profile("batchq", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The profile of `make check`, by --hypothesis-profile.
settings.register_profile("check", settings.get_profile("batchq"), max_examples=10)
settings.load_profile("batchq")

TESTS = Path(__file__).parent
# New objects between two collections of garbage. Python's default is 700: collections take a sixth of the time in which
# pytest collects the tests, and of the time of a test that starts a server.
gc.set_threshold(10_000)
# Each test of these folders is about a whole server, mostly in a process of its own.
PROCESS_FOLDERS = {"clients", "faults", "roles", "service"}
STARTS_PROCESS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen", "tests.fork"}
ALLOWED = {"process", "docker", "strace", "exhaustive", "million", "browser"}  # markers

running: list[pytest.Item] = []


def pytest_configure(config):
    """In `make check` hypothesis draws no literals of modules: to parse all modules takes up to 2 s of CPU a process.

    A twentieth of the values are literals, and a test of `make check` has few examples.
    """
    if config.getoption("--hypothesis-profile") == "check":
        providers._get_local_constants = lambda: providers._local_constants


def refuse_processes(event, arguments):
    """An audit hook: a test that starts a process is not one of `make check`."""
    if event in STARTS_PROCESS and running and not any(marker.name in ALLOWED for marker in running[-1].iter_markers()):
        pytest.fail(f"mark the test `process`, because it starts one: {event} {arguments}")


sys.addaudithook(refuse_processes)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    running.append(item)
    try:
        return (yield)
    finally:
        running.pop()
        # aiohttp keeps the handlers of a thousand applications, and with them the servers of tests that have ended.
        _cached_build_middleware.cache_clear()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests of servers `process`, and report the catalogue's rows of each test with its result.

    Long tests are first: a worker that began one at the end of a run would be the only one that works.
    """
    for item in items:
        if item.path.relative_to(TESTS).parts[0] in PROCESS_FOLDERS:
            item.add_marker("process")
        item.user_properties += [("fault", row) for mark in item.iter_markers("fault") for row in mark.args]
    items.sort(key=is_short)


def is_short(item):
    return item.get_closest_marker("timeout") is None and item.get_closest_marker("exhaustive") is None


def pytest_collection_finish():
    """Exempt the tests and all imported modules from garbage collection. `run_report` collects as the memory grows."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def tmp_path(tmp_path, request):
    """A folder that is removed at the end of a test that passes. The test fails if the folder cannot be removed."""
    failed = request.session.testsfailed
    yield tmp_path
    if request.session.testsfailed == failed:
        shutil.rmtree(tmp_path, ignore_errors=True)  # a process that just ends may still write
        if tmp_path.exists():
            shutil.rmtree(tmp_path)


@pytest.fixture(scope="session")
def docker_engine():
    """The address of the engine; None is the SDK's default. Without an engine that answers tests fail, not skip."""
    try:
        with closing(docker.from_env()) as client:
            client.ping()
    except DockerException as why:
        pytest.fail(f"no Docker engine answers: run .ci/engine ({why})", pytrace=False)
    return os.environ.get("DOCKER_HOST")
