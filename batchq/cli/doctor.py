"""`batchq doctor`: diagnoses engine, data, clock, server and jobs; exit status 1 if there is a problem, else 0."""

import argparse
import json
from pathlib import Path

from msgspec.structs import asdict

from batchq.bootstrap import look_around
from batchq.cli.arguments import read
from batchq.cli.http_client import add_url, call, url_of
from batchq.cli.output import line
from batchq.doctor.facts import Finding, ServerFacts
from batchq.doctor.report import examine, is_healthy
from batchq.errors import BatchqError, Invalid

HEALTH = "/healthz"
PATIENCE = 5.0  # seconds


def add(command: argparse.ArgumentParser) -> None:
    """Diagnose engine, data, disk, clock, server and jobs, and recommend remedies. Nothing is changed."""
    command.set_defaults(run=run)
    command.add_argument("--data", type=Path, help="data directory, with the database and the logs")
    add_url(command)
    command.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(asked: argparse.Namespace) -> int:
    """Raises Misused."""
    found = examine(look_around(read(asked), ask(url_of(asked))))
    print(json.dumps([asdict(it) for it in found], indent=2) if asked.json else "\n".join(map(render, found)))
    return 0 if is_healthy(found) else 1


def ask(url: str) -> ServerFacts:
    """The health report of the server, or why there is none."""
    try:
        try:
            health = call(url, HEALTH, patience=PATIENCE)
        except Invalid:  # the server refuses our key; an unsigned request gets a short report
            health = call(url, HEALTH, patience=PATIENCE, signed=False)
        return ServerFacts(url=url, health=health)
    except BatchqError as away:
        return ServerFacts(url=url, error=str(away))


def render(finding: Finding) -> str:
    """A finding as one line."""
    do = f". {finding.advice}" if finding.advice else ""
    return line(f"{finding.level:8} {finding.component}: {finding.message}{do}")
