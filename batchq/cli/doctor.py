"""`batchq doctor`: diagnoses engine, data, clock, server and jobs; exit status 1 if there is a problem, else 0."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from batchq.cli.http_client import Document, call, url_of
from batchq.cli.output import DONE, REFUSED
from batchq.cli.server_settings import settings_of
from batchq.cli.tables import add_form_flag, print_result
from batchq.doctor.facts import Finding, ServerFacts
from batchq.doctor.server import all_findings, is_healthy
from batchq.errors import BatchqError, Invalid
from batchq.server.installation import collect_facts

HEALTH = "/healthz"
TIMEOUT = 5.0  # seconds


def add_doctor(command: ArgumentParser) -> None:
    """Diagnose engine, data, disk, clock, server and jobs, and recommend remedies. Nothing is changed."""
    command.add_argument("--data", type=Path, help="data directory, with the database and the logs")
    add_form_flag(command)


def run_doctor(args: Namespace) -> int:
    """Raises UsageError."""
    found = all_findings(collect_facts(settings_of(args), server_facts(url_of(args))))
    print_result(args, found, map(render_finding, found))
    return DONE if is_healthy(found) else REFUSED


def server_facts(url: str) -> ServerFacts:
    """The health report of the server, or why there is none."""
    try:
        try:
            health = call(url, HEALTH, answer=Document, timeout=TIMEOUT)
        except Invalid:  # the server refuses our key; an unsigned request gets a short report
            health = call(url, HEALTH, answer=Document, timeout=TIMEOUT, signed=False)
        return ServerFacts(url=url, health=health)
    except BatchqError as error:
        return ServerFacts(url=url, error=str(error))


def render_finding(finding: Finding) -> str:
    """A finding as one line."""
    do = f". {finding.advice}" if finding.advice else ""
    return f"{finding.level:8} {finding.component}: {finding.message}{do}"
