"""Findings about clocks: compares the machine's clock with the engine's, the server's and the newest job's time."""

from datetime import UTC, datetime, timedelta

from batchq.doctor.facts import EngineFacts, Facts
from batchq.doctor.finding import Findings, ok, problem, warning

CLOCK = "clock"
APART = timedelta(seconds=5)


def findings(facts: Facts) -> Findings:
    found = [*_engine(facts), *_server(facts), *_rows(facts)]
    yield from found or [ok(CLOCK, f"all clocks agree: {_told(facts.now)}")]


def _engine(facts: Facts) -> Findings:
    ahead = facts.engine.ahead if isinstance(facts.engine, EngineFacts) else None
    if ahead is not None and abs(ahead) > APART.total_seconds():
        says = f"the engine's clock is {_apart(timedelta(seconds=ahead))} this machine's: times of jobs will look odd"
        yield warning(CLOCK, says, "Set both by NTP.")


def _server(facts: Facts) -> Findings:
    """Compare the server's clock: it is read from the machine at the start and then runs independently."""
    try:
        ahead = datetime.fromisoformat(str((facts.server.health or {}).get("now"))) - facts.now
    except (TypeError, ValueError):  # no server, a server that reports no time, or not a batchq server
        return
    if abs(ahead) > APART:
        says = f"the server's clock is {_apart(ahead)} this machine's, which was set since the server started"
        do = "Restart batchq to show the right times: jobs run on, and their time limits move with the clock."
        yield warning(CLOCK, says, do)


def _rows(facts: Facts) -> Findings:
    newest = facts.store.records.newest if facts.store.records is not None else None
    if newest is not None and newest - facts.now > APART:
        says = f"it is {_told(facts.now)} here, and the newest job is of {_told(newest)}: the clock was set back"
        do = (
            "Set the clock before batchq is started after a boot: what has passed since the last boot is counted by it."
        )
        yield problem(CLOCK, says, do)


def _apart(ahead: timedelta) -> str:
    seconds = abs(ahead).total_seconds()
    return f"{seconds:,.0f} s {'ahead of' if ahead > timedelta() else 'behind'}"


def _told(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
