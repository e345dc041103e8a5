"""Each thing that may be wrong, alone in a world that is well: it is said, how bad it is, and what to do."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from batchq.doctor.facts import DiskSpace, EngineFault, EngineTrouble, ServerFacts, StoreFacts
from batchq.doctor.report import examine, well
from tests.doctor.looked import DATA, GIB, HEALTHY, MIB, URL, engine, facts, file, ill, ills, records, server, store
from tests.support.builders import NOON

AWAY = ServerFacts(url=URL, away=f"no batchq answers at {URL}: Connection refused")
ADDRESS = "unix:///run/docker.sock"
LOOPS = {"scheduler": "ok", "survey": "restarted 1 times"}
BROKEN = {"scheduler": "restarted 7 times and keeps failing"}


def without_engine(kind, words):
    return {"engine": EngineTrouble(address=ADDRESS, kind=kind, words=words)}


ENGINE = {
    "absent": (without_engine(EngineFault.ABSENT, "No such file"), "problem", "DOCKER_HOST"),
    "forbidden": (without_engine(EngineFault.FORBIDDEN, "Permission denied"), "problem", "usermod -aG docker"),
    "deaf": (without_engine(EngineFault.DEAF, "Connection refused"), "problem", "systemctl start docker"),
    "silent": (without_engine(EngineFault.SILENT, "timed out"), "problem", "systemctl restart docker"),
    "strange": (without_engine(EngineFault.STRANGE, "no version"), "problem", "no version; jobs wait"),
    "too old": ({"engine": engine(version="19.03.1", api="1.40")}, "problem", "19.03.1 speaks API 1.40"),
    "live-restore off": ({"engine": engine(live_restore=False)}, "warning", '{"live-restore": true}'),
    "no limits": ({"engine": engine(lacks=("memory", "swap"))}, "warning", "cannot limit memory, swap"),
    "little room": (
        {"engine": engine(root=Path("/d"), room=DiskSpace(free=GIB, size=9 * GIB))},
        "warning",
        "1.0 GiB free",
    ),
    "no room": ({"engine": engine(room=DiskSpace(free=MIB, size=9 * GIB))}, "problem", "docker image prune"),
}
STORE = {
    "damaged": ({"store": store(refusal="/data/batchq.db is damaged: page 3")}, "problem", "damaged: page 3"),
    "put aside": ({"store": store(records=records(aside=2))}, "warning", "2 records of jobs could not be read"),
    "unreadable": ({"store": store(records=records(fault="job x: no JSON"))}, "problem", "job x: no JSON"),
    "restored": ({"store": store(records=records(restored_at=NOON))}, "warning", "then batchq resume"),
    "long log": ({"store": store(wal=900 * MIB)}, "warning", "900 MiB long"),
    "exposed": ({"store": store(files=(file(mode=0o644),))}, "warning", "chmod 0600 /data/batchq.db"),
    "foreign": ({"store": store(files=(file(owner=0),))}, "warning", "belongs to the user 0"),
    "little room": ({"store": store(room=DiskSpace(free=100 * MIB, size=GIB))}, "warning", "100 MiB are free"),
    "no room": ({"store": store(room=DiskSpace(free=10 * MIB, size=GIB))}, "problem", "less than the 64 MiB"),
}
CLOCK = {
    "engine ahead": ({"engine": engine(ahead=61.0)}, "warning", "61 s ahead of"),
    "engine behind": ({"engine": engine(ahead=-3600.0)}, "warning", "3,600 s behind"),
    "server behind": ({"server": server(now=(NOON - timedelta(hours=8)).isoformat())}, "warning", "28,800 s behind"),
    "set back": ({"store": store(records=records(newest=NOON + timedelta(days=1)))}, "problem", "2026-11-22 12:00:00"),
}
SERVER = {
    "away": ({"server": AWAY}, "problem", "pid 77 holds /data"),
    "other version": ({"server": server(version="0.9")}, "warning", "it is batchq 0.9"),
    "other data": ({"server": server(instance="ffff0000")}, "warning", "--data"),
    "store fails": ({"server": server(store="no space left on device")}, "problem", "no space left on device"),
    "no engine": ({"server": server(engine="survey: nobody")}, "problem", "its container engine fails: survey: nobody"),
    "restored": ({"server": server(data="restored from a backup, 3 unknown containers")}, "warning", "batchq resume"),
    "restarted loop": ({"server": server(loops=LOOPS)}, "warning", "its loop survey was restarted 1 times"),
    "broken loop": ({"server": server(loops=BROKEN)}, "problem", "report it"),
    "reserve": ({"server": server(reserve="2 of 16 MiB are left")}, "problem", "Make room on the disk"),
    "log capture": ({"server": server(logs="log capture stopped 1 times")}, "warning", "--log-mib"),
    "held up": ({"server": server(pulse="held up 2 times of late, for 3.0 s at most")}, "warning", "for 3.0 s at most"),
}


@pytest.mark.parametrize(("changes", "level", "words"), ENGINE.values(), ids=ENGINE)
def test_an_engine_that_is_not_well_is_told(changes, level, words):
    found = ill(**changes)

    assert found[:2] == (level, "engine")
    assert words in found[2]


@pytest.mark.parametrize(("changes", "level", "words"), STORE.values(), ids=STORE)
def test_data_that_is_not_well_is_told(changes, level, words):
    found = ill(**changes)

    assert found[0] == level
    assert found[1] in {"store", "disk"}
    assert words in found[2]


@pytest.mark.parametrize(("changes", "level", "words"), CLOCK.values(), ids=CLOCK)
def test_clocks_that_do_not_agree_are_told(changes, level, words):
    found = ill(**changes)

    assert found[:2] == (level, "clock")
    assert words in found[2]


@pytest.mark.parametrize(("changes", "level", "words"), SERVER.values(), ids=SERVER)
def test_a_server_that_is_not_well_is_told(changes, level, words):
    found = ill(**changes)

    assert found[:2] == (level, "server")
    assert words in found[2]


def test_a_world_that_is_well_has_no_ills():
    assert ills() == []


def test_a_place_where_nothing_is_yet_is_well():
    nothing = facts(store=StoreFacts(data=DATA, newest_schema=3), server=AWAY)

    assert well(examine(nothing))
    assert any("the first batchq serve makes it" in it.says for it in examine(nothing))


def test_data_that_no_server_holds_is_well_without_one():
    assert ills(store=store(held=False, holder=None), server=AWAY) == []


def test_whose_lock_cannot_be_told_is_no_ill():
    assert ills(store=store(held=None, holder=None)) == []


def test_an_older_schema_waits_for_the_next_start():
    older = store(held=False, schema=2, records=None)

    assert ills(store=older, server=AWAY) == []
    assert any("has schema 2; the next start" in it.says for it in examine(facts(store=older, server=AWAY)))


def test_root_is_no_stranger_to_anybodys_files():
    assert ills(user=0) == []


def test_simulated_containers_need_no_engine():
    assert ills(engine=None) == []


def test_a_server_that_says_less_of_itself_is_taken_as_it_is():
    old = {name: it for name, it in HEALTHY.items() if name not in {"pulse", "now", "loops"}}

    assert ills(server=ServerFacts(url=URL, health=old)) == []


def test_a_server_that_wants_a_key_says_how_it_is_and_no_more():
    assert ills(server=ServerFacts(url=URL, health={"status": "ok"})) == []


def test_small_differences_of_clocks_are_none():
    young = replace(store(), records=records(newest=NOON + timedelta(seconds=2)))

    assert ills(engine=engine(ahead=-4.9), store=young) == []


@pytest.mark.parametrize("now", [None, 7, "noon", "2026-11-21T12:00:00", "9999-12-31T23:59:59"])
def test_a_server_whose_time_is_none_is_not_compared(now):
    assert ills(server=server(now=now)) == []
