"""A story with what came of it, for whoever must understand it."""

import re

from tests.machine.deeds import Story
from tests.machine.model import broken
from tests.machine.play import play
from tests.machine.shorten import shortest


def check(story: Story) -> None:
    """Play it, and hold it against the model. Raises AssertionError, with what happens in the shortest such story."""
    if not _wrong(story):
        return
    short = shortest(story, lambda it: bool(_wrong(it)))
    facts = play(short)
    told = _named(facts, [*facts.trouble, *broken(facts), "", *_lines(facts)])
    raise AssertionError("\n".join(["", *told, "", repr(short)]))


def _wrong(story: Story) -> list[str]:
    facts = play(story)
    return [*facts.trouble, *broken(facts)]


def _lines(facts):
    told = [
        (it.commit, 1, f"{it.at:8.2f}  {job_id} {_said(it)}") for job_id, of in facts.seen.items() for it in of.sights
    ]
    told += [(it.granted, 2, f"{it.at:8.2f}  {it.kind} {it.of}: {it.reason!r}") for it in facts.orders]
    return [f"{commit:4} {line}" for commit, _, line in sorted(told)]


def _said(sight):
    flags = [name for name in ("cancelled", "terminated", "array_state") if getattr(sight, name)]
    return " ".join([sight.status, f"({sight.reason})", f"{sight.attempts} attempts", str(sight.exits), *flags])


def _named(facts, lines):
    """Ids are long, and another story each time: jobs are called by their number."""
    names = {it: f"job-{number}" for number, it in enumerate(sorted(it for it in facts.ids() if ":" not in it))}
    ids = re.compile("|".join(names) or "$.")
    return [ids.sub(lambda it: names[it[0]], line) for line in lines]
