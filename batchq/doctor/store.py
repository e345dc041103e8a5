"""Findings about the data directory: the database, the lock, the disk and the file modes."""

from batchq.doctor.facts import DiskSpace, FileFacts, Records, StoreFacts
from batchq.doctor.finding import Finding, Findings, ok, problem, warning

STORE, DISK = "store", "disk"
LONG_WAL = 256 * 2**20  # bytes; SQLite reuses it from a few MiB on, unless a reader stays open for long
ENOUGH = 8  # a warning below this many times the floor
ROOT = 0


def findings(store: StoreFacts, *, floor: int, user: int) -> Findings:
    if not store.there:
        yield ok(STORE, f"there is no data in {store.data} yet; the first batchq serve makes it")
        return
    if store.copied:
        says = f"{store.data} is a copy, or was moved from another file system: batchq serve refuses it"
        yield problem(STORE, says, f"If the original is served no more: batchq restore --take-over --data {store.data}")
    yield _holder(store)
    yield _database(store)
    if store.records is not None:
        yield from _told(store.records)
    if store.wal > LONG_WAL:
        says = f"the write-ahead log is {store.wal // 2**20} MiB long: somebody reads the database for long"
        yield warning(
            STORE, says, "End programs that hold batchq.db open (fuser batchq.db); it shrinks by itself then."
        )
    yield from (_exposed(it) for it in store.files if it.mode & ~it.wanted)
    yield from (_foreign(it) for it in store.files if user not in (it.owner, ROOT))
    if store.room is not None:
        yield _room(store, store.room, floor)


def _holder(store: StoreFacts) -> Finding:
    if store.held is None:
        return ok(STORE, f"{store.data}; who holds its lock cannot be told here")
    if not store.held:
        return ok(STORE, f"{store.data}; no server holds it")
    return ok(STORE, f"{store.data} is held by a server{f' (pid {store.holder})' if store.holder else ''}")


def _database(store: StoreFacts) -> Finding:
    if store.refusal is not None:
        return problem(STORE, store.refusal, "Restore a backup (batchq restore), or ask a human who knows SQLite.")
    if store.schema != store.newest_schema:
        return ok(STORE, f"the database has schema {store.schema}; the next start brings it to {store.newest_schema}")
    return ok(STORE, f"the database is whole, of schema {store.schema}")


def _told(records: Records) -> Findings:
    if records.fault is not None:
        yield problem(STORE, f"not all of it can be read: {records.fault}", "See batchq check.")
    if records.aside:
        says = f"{records.aside} records of jobs could not be read: what was there is kept in the table quarantine"
        yield warning(STORE, says, "Ask what damaged them: the disk, the memory, or somebody who wrote into batchq.db.")
    if records.restored_at is not None:
        says = f"a backup was restored at {records.restored_at:%Y-%m-%d %H:%M:%S} UTC, and nothing is started yet"
        by_label = f"docker ps -a --filter label=io.batchq.instance={records.instance}"
        yield warning(STORE, says, f"See that what runs is as it should be ({by_label}); then batchq resume.")


def _exposed(it: FileFacts) -> Finding:
    says = f"{it.path} has mode {it.mode:04o}: others of this machine may read what is in it"
    return warning(STORE, says, f"chmod {it.wanted:04o} {it.path}")


def _foreign(it: FileFacts) -> Finding:
    says = f"{it.path} belongs to the user {it.owner}: a server of yours could not write it"
    return warning(STORE, says, "Run batchq as that user, or give the files to yours (chown).")


def _room(store: StoreFacts, room: DiskSpace, floor: int) -> Finding:
    says = f"{room.free // 2**20} MiB are free for {store.data}"
    do = "Make room on that disk; what must be saved is tried again until it fits."
    if room.free < floor:
        return problem(DISK, f"{says}, less than the {floor // 2**20} MiB below which no job is taken", do)
    return warning(DISK, says, do) if room.free < ENOUGH * floor else ok(DISK, says)
