"""Findings about the server: the state it reports, and whether it serves this data directory."""

from collections.abc import Mapping

from batchq.doctor.facts import Facts
from batchq.doctor.finding import Findings, ok, problem, warning

SERVER = "server"
LOOK_AT_LOG = "See its log."
PULSE = "Its log names what held it up; where it names nothing, the machine slept or had much else to do."


def findings(facts: Facts) -> Findings:
    health = facts.server.health
    if health is None:
        yield from _away(facts)
        return
    version = health.get("version")
    if version is None:
        yield ok(
            SERVER, f"one answers at {facts.server.url}: {health.get('status')}; it tells no more to who has no key"
        )
        return
    yield ok(SERVER, f"batchq {version} answers at {facts.server.url}: {health.get('status')}")
    if version != facts.version:
        says = f"it is batchq {version}, and this command is of {facts.version}"
        yield warning(SERVER, says, "Restart batchq serve after an upgrade (jobs run on).")
    yield from _other_data(facts, health)
    yield from _store_and_engine(health)
    yield from _disk(health)
    if (data := health.get("data", "ok")) != "ok":
        do = "Look at what runs, then batchq resume; with --purge, what no job owns is cleared away."
        yield warning(SERVER, f"its data was {data}", do)
    yield from _loops(health)
    pulse = health.get("pulse", "ok")
    if pulse != "ok":
        yield warning(SERVER, f"its event loop was {pulse}", PULSE)


def _away(facts: Facts) -> Findings:
    server, store = facts.server, facts.store
    if store.held:
        holder = f"pid {store.holder}" if store.holder else "a server"
        says = f"{holder} holds {store.data}, and {server.away.rstrip('.')}"
        yield problem(SERVER, says, "Say --url if it listens elsewhere. If it hangs, kill -9 it: nothing is lost.")
    else:
        yield ok(SERVER, f"none runs at {server.url}")


def _other_data(facts: Facts, health: Mapping[str, object]) -> Findings:
    records = facts.store.records
    ours = records.instance if records is not None else None
    if health.get("instance") != ours:
        says = f"it serves the data of instance {health.get('instance')}, and {facts.store.data} is of {ours or 'none'}"
        yield warning(SERVER, says, "Say --data as batchq serve was told, or --url of the server that holds this data.")


def _store_and_engine(health: Mapping[str, object]) -> Findings:
    store, engine = health.get("store", "ok"), health.get("engine", "ok")
    if store != "ok":
        yield problem(SERVER, f"its database fails: {store}", "What is not saved is tried again; mend the disk.")
    if engine != "ok":
        yield problem(SERVER, f"its container engine fails: {engine}", "Jobs wait until it is well again.")


def _disk(health: Mapping[str, object]) -> Findings:
    """Findings about the disk reserve and stored logs. Free space is a finding of `doctor.store`."""
    reserve, logs = health.get("reserve", "ok"), health.get("logs", "ok")
    if reserve != "ok":
        do = "Make room on the disk of the data: when nothing is left of it, job ends are not saved until there is."
        yield problem(SERVER, str(reserve), do)
    if logs != "ok":
        yield warning(SERVER, str(logs), "Raise serve --log-mib or account --log-mib, or make room on the disk.")


def _loops(health: Mapping[str, object]) -> Findings:
    loops = health.get("loops")
    ailing = {name: it for name, it in loops.items() if it != "ok"} if isinstance(loops, dict) else {}
    for name, said in ailing.items():
        says = f"its loop {name} was {said}"
        if "keeps failing" in str(said):
            yield problem(SERVER, says, f"{LOOK_AT_LOG} Restart batchq serve (jobs run on), and report it.")
        else:
            yield warning(SERVER, says, LOOK_AT_LOG)
