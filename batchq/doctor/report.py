"""The doctor's report: all findings, in reading order."""

from batchq.doctor import clock, engine, jobs, server, store
from batchq.doctor.facts import Facts
from batchq.doctor.finding import Finding, Level


def examine(facts: Facts) -> tuple[Finding, ...]:
    """All findings about an installation."""
    return (
        *engine.findings(facts.engine),
        *store.findings(facts.store, floor=facts.floor, user=facts.user),
        *clock.findings(facts),
        *server.findings(facts),
        *jobs.findings(facts),
    )


def well(findings: tuple[Finding, ...]) -> bool:
    """Whether none of the findings is a problem."""
    return all(it.level is not Level.PROBLEM for it in findings)
