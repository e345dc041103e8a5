"""A run of pytest prints its failures in each case, and fails for too much memory or folders that cannot be removed."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.house.rooms import ROOT

pytestmark = pytest.mark.process
CONFTEST = "from tests.conftest import pytest_plugins, tmp_path\n"
FAILS = "def test_a():\n    assert 1 == 2\n"
PASSES = "def test_a():\n    pass\n"
IN_THE_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")


IN_EACH_WAY = pytest.mark.parametrize("run", ["0", "1"], ids=["without workers", "with a worker"], indirect=True)


@pytest.fixture(params=["1"])
def run(request, tmp_path):
    """Run pytest with a test and the plugin. Returns the exit status and the output."""

    def run(test, conftest="", *, under=()):
        (tmp_path / "conftest.py").write_text(CONFTEST + conftest)
        (tmp_path / "test_inner.py").write_text(test)
        python = [sys.executable, "-m", "pytest", "-q", "-n", request.param, "-p", "no:cacheprovider"]
        folders = [
            f"--rootdir={tmp_path}",
            "-c",
            tmp_path / "pytest.ini",
            "-o",
            f"pythonpath={ROOT}",
            tmp_path / "test_inner.py",
        ]
        (tmp_path / "pytest.ini").write_text("[pytest]\ntmp_path_retention_policy = failed\n")
        done = subprocess.run(
            [*under, *python, *folders],
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", "PYTEST_DEBUG_TEMPROOT": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


@IN_EACH_WAY
def test_failures_are_printed_when_a_hook_at_the_end_raises(run):
    status, output = run(FAILS, "def pytest_sessionfinish():\n    raise OSError('in the hook')\n")

    assert status == pytest.ExitCode.TESTS_FAILED
    assert "FAILED test_inner.py::test_a (call)" in output
    assert "E       assert 1 == 2" in output
    assert "1 failed" in output


def test_an_error_at_the_end_fails_a_run_whose_tests_pass(run):
    status, output = run(PASSES, "def pytest_sessionfinish():\n    raise OSError('in the hook')\n")

    assert status == pytest.ExitCode.TESTS_FAILED
    assert "error at the end of the run" in output
    assert "OSError: in the hook" in output
    assert "1 passed" in output


def test_failures_are_printed_after_an_internal_error(run):
    status, output = run(FAILS, "def pytest_runtest_logfinish():\n    raise OSError('in the hook')\n")

    assert status == pytest.ExitCode.INTERNAL_ERROR
    assert "E       assert 1 == 2" in output


@IN_EACH_WAY
def test_a_run_with_too_much_memory_fails_and_names_its_tests(run):
    limit = "from tests.support import run_report\nrun_report.MAX_MEMORY = 1\n"

    status, output = run("def test_a():\n    assert len(bytearray(40 * 2**20)) > 0\n", limit)

    assert status == pytest.ExitCode.TESTS_FAILED
    assert "had more than 1 MiB" in output
    assert "MiB test_inner.py::test_a" in output


LEAVES_A_CYCLE = """
import pytest

@pytest.mark.parametrize("number", range(60))
def test_a(number):
    cycle = [bytearray(10 * 2**20)]
    cycle.append(cycle)
"""


def test_garbage_of_small_tests_does_not_accumulate(run):
    limit = "from tests.support import run_report\nrun_report.MAX_MEMORY = run_report.own_peak() + 60\n"

    status, output = run(LEAVES_A_CYCLE, limit)

    assert status == pytest.ExitCode.OK, output


MAKES_A_DEEP_FOLDER = """
from tests.support.test_run_report import make_deep_folder

def test_a(tmp_path{suffix}):
    make_deep_folder(tmp_path{suffix}{made})
"""


def make_deep_folder(folder):
    below = os.open(folder, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=below)
        below, above = os.open("d", os.O_RDONLY, dir_fd=below), below
        os.close(above)
    os.close(below)


def test_a_test_fails_that_leaves_a_folder_too_deep_to_remove(run, tmp_path):
    status, output = run(MAKES_A_DEEP_FOLDER.format(suffix="", made=""))

    assert status == pytest.ExitCode.TESTS_FAILED
    assert "FAILED test_inner.py::test_a (teardown)" in output
    assert "1 error in" in output
    shutil.rmtree(tmp_path)


def test_a_run_fails_that_leaves_a_folder_too_deep_to_remove(run, tmp_path):
    status, output = run(MAKES_A_DEEP_FOLDER.format(suffix="_factory", made=".mktemp('deep')"))

    assert status == pytest.ExitCode.TESTS_FAILED
    assert "a test left more than 50 levels of directories" in output
    assert "/deep0/d/d/" in output
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("run", ["0"], indirect=True)
def test_a_folder_of_an_earlier_run_that_is_too_deep_is_removed(run, tmp_path):
    run(FAILS.replace("()", "(tmp_path)"))
    (folder,) = tmp_path.glob("pytest-of-*")
    (folder / "pytest-0").rename(folder / "garbage-1")
    make_deep_folder(folder / "garbage-1")

    status, output = run(PASSES.replace("()", "(tmp_path)"))

    assert (status, list(folder.glob("garbage-*"))) == (pytest.ExitCode.OK, []), output


@IN_EACH_WAY
@pytest.mark.parametrize(
    ("under", "number", "handler"),
    [(IN_THE_BACKGROUND, "SIGINT", "default_int_handler"), (("nohup",), "SIGHUP", "SIG_DFL")],
    ids=["in the background", "under nohup"],
)
def test_a_program_can_be_interrupted_although_the_run_ignores_the_signal(run, under, number, handler):
    program = f"import signal; print(signal.getsignal(signal.{number}).{{}}, end='')"
    program = program.format("__name__" if number == "SIGINT" else "name")
    test = (
        "import subprocess, sys\n\ndef test_a():\n"
        f"    assert subprocess.check_output([sys.executable, '-c', {program!r}]) == {handler.encode()!r}\n"
    )

    status, output = run(test, under=under)

    assert status == pytest.ExitCode.OK, output
