"""A plugin (`-p tests.faults.outcomes`): adds to the file in FAULT_OUTCOMES how the tests of each row ended."""

import json
import os
from pathlib import Path


def pytest_runtest_logreport(report):
    """A failing set-up or clean-up fails the test as well; with xdist only the controller writes."""
    if "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.passed):
        return
    rows = [value for name, value in report.user_properties if name == "fault"]
    if rows:
        outcome = {"test": report.nodeid, "rows": rows, "outcome": report.outcome}
        with Path(os.environ["FAULT_OUTCOMES"]).open("a") as file:
            file.write(json.dumps(outcome) + "\n")
