"""The doctor's report: all findings, in reading order."""

from batchq.doctor.environment import checkpoint_findings, clock_findings, engine_findings, store_findings
from batchq.doctor.facts import Facts, Finding, Level
from batchq.doctor.server import job_findings, server_findings, socket_findings


def examine(facts: Facts) -> tuple[Finding, ...]:
    """All findings about an installation."""
    return (
        *engine_findings(facts.engine),
        *store_findings(facts.store, min_free_bytes=facts.min_free_bytes, uid=facts.uid),
        *checkpoint_findings(facts),
        *clock_findings(facts),
        *server_findings(facts),
        *socket_findings(facts.socket),
        *job_findings(facts),
    )


def is_healthy(findings: tuple[Finding, ...]) -> bool:
    """Whether none of the findings is a problem."""
    return all(it.level is not Level.PROBLEM for it in findings)
