"""Compares one sequence of requests with the model, and reports the differences."""

import re

from tests.machine.model import differences
from tests.machine.requests import Sequence
from tests.machine.run import run


def check(sequence: Sequence) -> None:
    """Run it and compare with the model. Raises AssertionError with the differences and what happened."""
    record = run(sequence)
    problems = [*record.errors, *differences(record)]
    if problems:
        raise AssertionError("\n".join(["", *_with_names(record, [*problems, "", *_lines(record)])]))


def _lines(record):
    lines = [
        (it.commit, 1, f"{it.at:8.2f}  {job_id} {_describe(it)}")
        for job_id, of in record.seen.items()
        for it in of.observations
    ]
    lines += [(it.granted, 2, f"{it.at:8.2f}  {it.kind} {it.of}: {it.reason!r}") for it in record.orders]
    lines += [(it.granted, 2, f"{it.at:8.2f}  {it.kind} {it.of}: {it.refused or 'done'}") for it in record.holds]
    return [f"{commit:4} {line}" for commit, _, line in sorted(lines)]


def _describe(observation):
    flags = [name for name in ("held", "cancelled", "terminated", "has_children") if getattr(observation, name)]
    return " ".join(
        [
            observation.status,
            f"({observation.reason})",
            f"{observation.attempts} attempts",
            str(observation.exits),
            *flags,
        ]
    )


def _with_names(record, lines):
    """The lines with the number of each job in place of its id, which differs in each run."""
    names = {it: f"job-{number}" for number, it in enumerate(sorted(it for it in record.ids() if ":" not in it))}
    ids = re.compile("|".join(names) or "$.")
    return [ids.sub(lambda it: names[it[0]], line) for line in lines]
