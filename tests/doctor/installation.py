"""Facts about a healthy installation, changed by each test."""

from pathlib import Path

from msgspec.structs import replace

from batchq.doctor.facts import DatabaseFacts, DiskSpace, Facts, FileFacts, Level, RuntimeFacts, ServerFacts, StoreFacts
from batchq.doctor.server import all_findings
from tests.support.builders import NOON

GIB, MIB = 2**30, 2**20
DATA = Path("/data")
URL = "http://127.0.0.1:22824"
HEALTHY = {
    "status": "ok",
    "store": "ok",
    "engine": "ok",
    "loops": {"scheduler": "ok", "alarms": "ok"},
    "eventLoop": "ok",
    "instance": "0a1b2c3d",
    "runtime": "docker",
    "version": "1.0",
    "now": NOON.isoformat(),
}


def engine(**changes):
    defaults = {"address": "unix:///run/docker.sock", "version": "24.0.7", "api": "1.43", "cgroup": "2"}
    return RuntimeFacts(**defaults | {"live_restore": True, "disk": DiskSpace(free=80 * GIB, size=100 * GIB)} | changes)


def database(**changes):
    return DatabaseFacts(**{"instance": HEALTHY["instance"], "container_jobs": {}} | changes)


def store(**changes):
    defaults = {"data": DATA, "exists": True, "locked": True, "holder_pid": 77, "schema": 3, "newest_schema": 3}
    disk = DiskSpace(free=50 * GIB, size=100 * GIB)
    return StoreFacts(**defaults | {"disk": disk, "database": database(), "files": (file(),)} | changes)


def file(**changes):
    return FileFacts(**{"path": DATA / "batchq.db", "mode": 0o600, "allowed_mode": 0o600, "owner_uid": 1000} | changes)


def server(**changes):
    return ServerFacts(url=URL, health=HEALTHY | changes)


def facts(**changes):
    """`engine`: the only one; None: there is none. Or `engines`."""
    defaults = {"now": NOON, "uid": 1000, "version": "1.0", "min_free_bytes": 64 * MIB, "engines": (engine(),)}
    if "engine" in changes:
        only = changes.pop("engine")
        defaults["engines"] = () if only is None else (only,)
    return Facts(**defaults | {"store": store(), "server": server()} | changes)


def failures(**changes):
    """The findings that are not ok, as (level, component, text); only the changed facts are unhealthy."""
    found = all_findings(facts(**changes))
    return [
        (record.level, record.component, f"{record.message}. {record.advice}")
        for record in found
        if record.level is not Level.OK
    ]


def failure(**changes):
    """The finding of an installation that has exactly one."""
    (found,) = failures(**changes)
    return found


def active(*jobs, **changes):
    """Changed facts: these jobs run."""
    known = database(active=jobs, container_jobs={job.id: job for job in jobs}, **changes)
    return {"store": replace(store(), database=known)}
