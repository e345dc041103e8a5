"""Each fault alone in a healthy installation yields one finding, with its level and an advice."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from batchq.doctor.facts import (
    CheckpointFacts,
    DiskSpace,
    RuntimeFault,
    ServerFacts,
    SocketFacts,
    StoreFacts,
    UnavailableRuntime,
)
from batchq.doctor.server import all_findings, is_healthy
from tests.doctor.installation import (
    DATA,
    GIB,
    HEALTHY,
    MIB,
    URL,
    database,
    engine,
    facts,
    failure,
    failures,
    file,
    server,
    store,
)
from tests.support.builders import NOON

NO_RESPONSE = ServerFacts(url=URL, error=f"cannot reach a batchq server at {URL}: Connection refused")
ADDRESS = "unix:///run/docker.sock"
LOOPS = {"scheduler": "ok", "survey": "restarted 1 times"}
BROKEN = {"loops": {"scheduler": "restarted 7 times and keeps failing"}, "failingLoops": ["scheduler"]}


def without_engine(fault, error):
    return {"engine": UnavailableRuntime(address=ADDRESS, fault=fault, error=error)}


ENGINE = {
    "absent": (without_engine(RuntimeFault.ABSENT, "No such file"), "problem", "DOCKER_HOST"),
    "forbidden": (without_engine(RuntimeFault.FORBIDDEN, "Permission denied"), "problem", "usermod -aG docker"),
    "not listening": (
        without_engine(RuntimeFault.NOT_LISTENING, "Connection refused"),
        "problem",
        "systemctl start docker",
    ),
    "not responding": (without_engine(RuntimeFault.NOT_RESPONDING, "timed out"), "problem", "systemctl restart docker"),
    "not an engine": (without_engine(RuntimeFault.NOT_AN_ENGINE, "no version"), "problem", "no version; jobs wait"),
    "too old": ({"engine": engine(version="19.03.1", api="1.40")}, "problem", "19.03.1 supports API 1.40"),
    "live-restore off": ({"engine": engine(live_restore=False)}, "warning", '{"live-restore": true}'),
    "no limits": ({"engine": engine(missing_limits=("memory", "swap"))}, "warning", "cannot limit memory, swap"),
    "little free space": (
        {"engine": engine(data_root=Path("/d"), disk=DiskSpace(free=GIB, size=9 * GIB))},
        "warning",
        "1.0 GiB free",
    ),
    "no free space": ({"engine": engine(disk=DiskSpace(free=MIB, size=9 * GIB))}, "problem", "docker image prune"),
}
STORE = {
    "damaged": ({"store": store(refusal="/data/batchq.db is damaged: page 3")}, "problem", "damaged: page 3"),
    "quarantined": ({"store": store(database=database(quarantined=2))}, "warning", "2 values of jobs are unreadable"),
    "unreadable": ({"store": store(database=database(read_error="job x: no JSON"))}, "problem", "job x: no JSON"),
    "restored": ({"store": store(database=database(restored_at=NOON))}, "warning", "then batchq leave-safe-mode"),
    "long write-ahead log": ({"store": store(wal_bytes=900 * MIB)}, "warning", "has 900 MiB"),
    "exposed": ({"store": store(files=(file(mode=0o644),))}, "warning", "chmod 0600 /data/batchq.db"),
    "foreign": ({"store": store(files=(file(owner_uid=0),))}, "warning", "is owned by uid 0"),
    "little free space": ({"store": store(disk=DiskSpace(free=100 * MIB, size=GIB))}, "warning", "100 MiB are free"),
    "no free space": ({"store": store(disk=DiskSpace(free=10 * MIB, size=GIB))}, "problem", "less than 64 MiB"),
}
CLOCK = {
    "engine ahead": ({"engine": engine(clock_offset=61.0)}, "warning", "61 s ahead of"),
    "engine behind": ({"engine": engine(clock_offset=-3600.0)}, "warning", "3,600 s behind"),
    "server behind": ({"server": server(now=(NOON - timedelta(hours=8)).isoformat())}, "warning", "28,800 s behind"),
    "set back": (
        {"store": store(database=database(newest_created_at=NOON + timedelta(days=1)))},
        "problem",
        "2026-11-22 12:00:00",
    ),
}
SERVER = {
    "no response": ({"server": NO_RESPONSE}, "problem", "pid 77 holds the lock of /data"),
    "other version": ({"server": server(version="0.9")}, "warning", "the server is batchq 0.9"),
    "other data": ({"server": server(instance="ffff0000")}, "warning", "--data"),
    "store fails": ({"server": server(store="no space left on device")}, "problem", "no space left on device"),
    "no engine": (
        {"server": server(engine="survey: timed out")},
        "problem",
        "its container engine fails: survey: timed out",
    ),
    "restored": (
        {"server": server(data="restored from a backup, 3 unknown containers")},
        "warning",
        "batchq leave-safe-mode",
    ),
    "restarted loop": ({"server": server(loops=LOOPS)}, "warning", "background loop survey: restarted 1 times"),
    "broken loop": ({"server": server(**BROKEN)}, "problem", "report the error"),
    "reserve": ({"server": server(reserve="2 of 16 MiB are left")}, "problem", "Free space on the disk"),
    "log capture": ({"server": server(logs="log capture stopped 1 times")}, "warning", "--log-mib"),
    "blocked event loop": (
        {"server": server(eventLoop="blocked 2 times recently, for at most 3.0 s")},
        "warning",
        "for at most 3.0 s",
    ),
}
SOCKET = SocketFacts(path=Path("/run/b/b.sock"), owner="root", group="batchq", mode=0o660, admits_caller=True)
SERVER |= {
    "socket of a group": ({"socket": replace(SOCKET, admits_caller=False)}, "warning", "Join the group batchq"),
    "socket of its owner": (
        {"socket": replace(SOCKET, admits_caller=False, mode=0o600)},
        "warning",
        "Start the server with --socket-group",
    ),
    "replaceable socket": (
        {"socket": replace(SOCKET, unsafe="other users can write to /run/b")},
        "problem",
        "Move the socket to a folder",
    ),
}


FAULTS = {
    f"{'/'.join(sorted(components))}: {name}": (components, *fault)
    for components, faults in (
        ({"engine"}, ENGINE),
        ({"store", "disk"}, STORE),
        ({"clock"}, CLOCK),
        ({"server"}, SERVER),
    )
    for name, fault in faults.items()
}


@pytest.mark.parametrize(("components", "changes", "level", "text"), FAULTS.values(), ids=FAULTS)
def test_each_fault_is_reported(components, changes, level, text):
    found = failure(**changes)

    assert found[0] == level
    assert found[1] in components
    assert text in found[2]


HEALTH_WITHOUT_MEMBERS = {name: value for name, value in HEALTHY.items() if name not in {"eventLoop", "now", "loops"}}
RECENT_JOB = database(newest_created_at=NOON + timedelta(seconds=2))
NO_FAULT = {
    "healthy": {},
    "stopped server": {"store": store(locked=False, holder_pid=None), "server": NO_RESPONSE},
    "unknown lock holder": {"store": store(locked=None, holder_pid=None)},
    "root may use files of any owner": {"uid": 0},
    "simulated containers": {"engine": None},
    "health report of an older server": {"server": ServerFacts(url=URL, health=HEALTH_WITHOUT_MEMBERS)},
    "health report without details": {"server": ServerFacts(url=URL, health={"status": "ok"})},
    "small clock differences": {"engine": engine(clock_offset=-4.9), "store": store(database=RECENT_JOB)},
} | {
    f"server time {now}": {"server": server(now=now)}
    for now in (None, 7, "noon", "2026-11-21T12:00:00", "9999-12-31T23:59:59")
}


@pytest.mark.parametrize("changes", NO_FAULT.values(), ids=NO_FAULT)
def test_an_installation_without_faults_has_no_failures(changes):
    assert failures(**changes) == []


@pytest.mark.parametrize(
    ("mode", "free", "text"),
    [
        (0o700, 63 * MIB, "less than 64 MiB (--min-free-mib), so jobs with checkpoints are refused"),
        (0o700, 500 * MIB, "500 MiB are free for checkpoints"),
        (0o711, 50 * GIB, "can enter /var/lib/batchq-checkpoints (mode 0711)"),
        (0o700, 50 * GIB, None),
    ],
)
def test_the_disk_and_the_mode_of_the_checkpoints_are_examined(mode, free, text):
    path = Path("/var/lib/batchq-checkpoints")
    checkpoints = CheckpointFacts(path=path, mode=mode, disk=DiskSpace(free=free, size=100 * GIB))

    found = [message for _, _, message in failures(checkpoints=checkpoints)]

    assert [text in line for line in found] == ([True] if text else [])


def test_a_missing_data_directory_is_healthy():
    new = facts(store=StoreFacts(data=DATA, newest_schema=3), server=NO_RESPONSE)

    assert is_healthy(all_findings(new))
    assert any("the first start of batchq serve creates it" in finding.message for finding in all_findings(new))


def test_an_older_schema_is_migrated_by_the_next_start():
    older = store(locked=False, schema=2, database=None)

    assert failures(store=older, server=NO_RESPONSE) == []
    assert any(
        "has schema 2; the next start" in finding.message
        for finding in all_findings(facts(store=older, server=NO_RESPONSE))
    )


@pytest.mark.parametrize(("mode", "end"), [(0o660, "group batchq"), (0o666, "every user of this machine may connect")])
def test_the_permissions_of_the_socket_are_reported(mode, end):
    found = all_findings(facts(socket=replace(SOCKET, mode=mode)))

    assert is_healthy(found)
    assert any(
        record.message.startswith("the socket /run/b/b.sock") and record.message.endswith(end) for record in found
    )
