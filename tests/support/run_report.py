"""A plugin of pytest: prints failures as they occur, the peak memory of each worker, and errors at the end of a run.

The run fails if a process that ran tests had more than MAX_MEMORY, or if the folders of passed tests cannot be removed.
"""

import ctypes
import gc
import resource
import subprocess
import traceback
from collections import Counter
from pathlib import Path

import pytest

from tests.support.processes import peak_memory_of

MAX_MEMORY = 700  # MiB, resident; the imports and the collected tests have about 250
MAX_LEVELS = 50  # directories below the base temporary directory: `shutil.rmtree` fails at about a thousand
COLLECTED_GROWTH = 64  # MiB of growth after which garbage is collected: Python counts objects, not their sizes
# glibc keeps the pages of freed memory, and other C libraries have no such function.
release_freed_pages = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)
PAGES = 2**20 // resource.getpagesize()  # in a MiB
SHOWN = 5  # the tests that raised the peak of a process most


def own_peak():
    """The most resident MiB so far. A tenth of the time of `peak_memory_of`, and read twice for each test."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def own_memory():
    """Resident MiB."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) / PAGES


def pytest_configure(config):
    config.pluginmanager.register(RunReport(config), "run_report")


class RunReport:
    """The report of one process: the controller of a run, or a worker of pytest-xdist."""

    def __init__(self, config):
        self._config = config
        self._is_worker = hasattr(config, "workerinput")
        #: The MiB by which each test raised the peak memory of this process.
        self._growth = Counter()
        #: The memory of this process in MiB after garbage was collected last. The peak would not do: the garbage
        #: of the tests before a collection is in it, and each collection would begin later than the one before.
        self._collected_at = 0
        #: For each process that ran tests: its peak memory in MiB, and the tests that raised it most.
        self._processes = {}
        #: Tracebacks of hooks at the end of the run.
        self._errors = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        before = own_peak()
        try:
            return (yield)
        finally:
            self._growth[item.nodeid] += own_peak() - before
            if own_memory() > self._collected_at + COLLECTED_GROWTH:
                gc.collect()
                release_freed_pages(0)
                self._collected_at = own_memory()

    def pytest_runtest_logreport(self, report):
        """A run that is killed has printed the failures until then."""
        if report.failed and not self._is_worker:
            self._terminal.write_line(f"FAILED {report.nodeid} ({report.when})", red=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        """pytest-xdist: a worker has ended."""
        output = getattr(node, "workeroutput", {})
        self._processes |= output.get("processes", {})
        self._errors += output.get("errors", ())

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session):
        """Print the summary of failures also if a hook raises an error: pytest prints it after all hooks."""
        if self._growth:
            name = self._config.workerinput["workerid"] if self._is_worker else "this process"
            self._processes[name] = peak_memory_of("self"), [[*growth] for growth in self._growth.most_common(SHOWN)]
        if not self._is_worker:
            self._remove_deep_paths()
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the summary must be printed
            if not (isinstance(error, RecursionError) and self._removed_deep_folders()):
                self._errors.append(traceback.format_exc())
        if self._is_worker:
            self._config.workeroutput |= {"processes": self._processes, "errors": self._errors}
            return
        self._check_folder(session.exitstatus)
        ended = session.exitstatus
        if ended == pytest.ExitCode.OK and (self._errors or self._above()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if ended == pytest.ExitCode.INTERNAL_ERROR:  # pytest prints no summary
            self._config.hook.pytest_terminal_summary(
                terminalreporter=self._terminal, exitstatus=ended, config=self._config
            )

    def pytest_terminal_summary(self, terminalreporter):
        for error in self._errors:
            terminalreporter.section("error at the end of the run")
            terminalreporter.write_line(error)
        if self._processes:
            for name, (peak, [(test, growth), *_]) in sorted(self._processes.items()):
                terminalreporter.write_line(f"peak memory of {name}: {peak:.0f} MiB, {growth:.0f} MiB of it by {test}")
        for name in self._above():
            terminalreporter.write_line(
                f"FAILED: {name} had more than {MAX_MEMORY} MiB. Tests that raised it:", red=True
            )
            for test, megabytes in self._processes[name][1]:
                terminalreporter.write_line(f"  {megabytes:5.0f} MiB {test}")

    @property
    def _terminal(self):
        return self._config.pluginmanager.getplugin("terminalreporter")

    @property
    def _folder(self):
        """The base temporary directory; None: the run has not created it."""
        return self._config._tmp_path_factory._basetemp

    def _remove_deep_paths(self):
        """The folders of failed tests are kept, and a later run of pytest must be able to remove them."""
        if self._folder is None:
            return
        level = ["-mindepth", str(MAX_LEVELS), "-maxdepth", str(MAX_LEVELS)]
        find = ["find", self._folder, *level, "-print", "-exec", "rm", "-rf", "{}", "+"]
        found = subprocess.run(find, stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()
        self._errors += [
            f"a test left more than {MAX_LEVELS} levels of directories: {folder}" for folder in found[:SHOWN]
        ]

    def _removed_deep_folders(self):
        """Remove folders of earlier runs that are too deep for `shutil.rmtree`. pytest has renamed them."""
        garbage = list(self._config._tmp_path_factory.getbasetemp().parent.glob("garbage-*"))
        subprocess.run(["rm", "-rf", "--", *garbage], check=False)
        return bool(garbage)

    def _check_folder(self, exitstatus):
        """pytest removes the folders of a passed run, and reports no error if it cannot."""
        policy = self._config.getini("tmp_path_retention_policy")
        removes = exitstatus == pytest.ExitCode.OK and policy == "failed" and self._config.option.basetemp is None
        if removes and self._folder is not None and self._folder.exists():
            left = sorted(path.name for path in self._folder.iterdir())[:SHOWN]
            self._errors.append(f"a test left files that cannot be removed, below {self._folder}: {left}")

    def _above(self):
        return [name for name, (peak, _) in sorted(self._processes.items()) if peak > MAX_MEMORY]
