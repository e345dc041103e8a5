"""Facts of a world in which all is well, and what a test is about."""

from pathlib import Path

from msgspec.structs import replace

from batchq.doctor.facts import (
    DiskSpace,
    EngineFacts,
    Facts,
    FileFacts,
    Records,
    ServerFacts,
    StoreFacts,
)
from batchq.doctor.finding import Level
from batchq.doctor.report import examine
from tests.support.builders import NOON

GIB, MIB = 2**30, 2**20
DATA = Path("/data")
URL = "http://127.0.0.1:22824"
HEALTHY = {
    "status": "ok",
    "store": "ok",
    "engine": "ok",
    "loops": {"scheduler": "ok", "alarms": "ok"},
    "pulse": "ok",
    "instance": "0a1b2c3d",
    "runtime": "docker",
    "version": "1.0",
    "now": NOON.isoformat(),
}


def engine(**changes):
    told = {"address": "unix:///run/docker.sock", "version": "24.0.7", "api": "1.43", "cgroup": "2"}
    return EngineFacts(**told | {"live_restore": True, "room": DiskSpace(free=80 * GIB, size=100 * GIB)} | changes)


def records(**changes):
    return Records(**{"instance": HEALTHY["instance"], "named": {}} | changes)


def store(**changes):
    there = {"data": DATA, "there": True, "held": True, "holder": 77, "schema": 3, "newest_schema": 3}
    room = DiskSpace(free=50 * GIB, size=100 * GIB)
    return StoreFacts(**there | {"room": room, "records": records(), "files": (file(),)} | changes)


def file(**changes):
    return FileFacts(**{"path": DATA / "batchq.db", "mode": 0o600, "wanted": 0o600, "owner": 1000} | changes)


def server(**changes):
    return ServerFacts(url=URL, health=HEALTHY | changes)


def facts(**changes):
    well = {"now": NOON, "user": 1000, "version": "1.0", "floor": 64 * MIB}
    return Facts(**well | {"engine": engine(), "store": store(), "server": server()} | changes)


def ills(**changes):
    """What is not ok in a world that is well but for this, as level, subject, and all that is said."""
    found = examine(facts(**changes))
    return [(it.level, it.about, f"{it.says}. {it.do}") for it in found if it.level is not Level.OK]


def ill(**changes):
    """The same, when there is one."""
    (found,) = ills(**changes)
    return found


def active(*jobs, **changes):
    """Changes of the facts to a world in which these jobs run."""
    known = records(active=jobs, named={it.id: it for it in jobs}, **changes)
    return {"store": replace(store(), records=known)}
