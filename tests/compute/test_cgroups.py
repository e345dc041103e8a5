"""What containers use is read from the files of their cgroups: of version 1, of version 2, and of both (hybrid).

- HYBRID_* was recorded on Linux 6.18 with Docker 20.10 and runc: the engine uses version 1, and a hierarchy of version
  2 without controllers is mounted beside it, where each container has a cgroup too. Lines without use are left out.
- V1_* are the same files of version 1 with other figures, and with I/O, which the kernel of the recording does not
  count.
- V2_* was not recorded. Its files have the formats of the kernel's documentation (admin-guide/cgroup-v2.rst: cpu.stat,
  memory.stat, io.stat), with invented figures. Its paths are those of runc and crun with the drivers cgroupfs and
  systemd.
"""

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from batchq.compute.docker.cgroups import LEARN_INTERVAL, UseReader
from batchq.domain.ids import JobId, Tag
from batchq.domain.use import Use
from batchq.errors import ContainerGone

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
ID, OTHER = "7a4e736ae9d0cc5d480ef283b6319941f7245e38831957d37950156e4b263c77", "0" * 64
PID = 4711
TAG, OTHER_TAG = (Tag(job_id=JobId(f"job-{number}"), attempt=1) for number in (1, 2))
V1_STAT = """cache 208896000
rss 104857600
inactive_file 1
hierarchical_memory_limit 268435456
total_cache 208896000
total_rss 104857600
total_inactive_anon 104857600
total_inactive_file 208732160
total_active_file 163840
"""
V1_FILES = {
    "cpuacct/{}/cpuacct.usage": "1032517844\n",
    "memory/{}/memory.max_usage_in_bytes": "268435456\n",
    "memory/{}/memory.usage_in_bytes": "316268544\n",
    "memory/{}/memory.stat": V1_STAT,
    "blkio/{}/blkio.throttle.io_service_bytes": "8:0 Read 209715200\n8:0 Write 4096\n8:0 Sync 209719296\n"
    "8:16 Read 1000\n8:16 Write 24\n8:0 Total 209719296\nTotal 209720320\n",
}
V1_USE = Use(
    sampled_at=NOW,
    cpu_seconds=1.032517844,
    peak_memory=268435456,
    working_set=316268544 - 208732160,
    bytes_read=209716200,
    bytes_written=4120,
)
V2_FILES = {
    "{}/cpu.stat": "usage_usec 7204118\nuser_usec 6011020\nsystem_usec 1193098\ncore_sched.force_idle_usec 0\n"
    "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\nnr_bursts 0\nburst_usec 0\n",
    "{}/memory.peak": "94371840\n",
    "{}/memory.current": "71303168\n",
    "{}/memory.stat": "anon 8048640\nfile 61865984\nkernel 1388544\nshmem 0\ninactive_anon 8036352\nactive_anon 12288\n"
    "inactive_file 53477376\nactive_file 8388608\nunevictable 0\n",
    # A device without I/O has no figures.
    "{}/io.stat": "8:0\n8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n"
    "253:0 rbytes=90430464 wbytes=299008000 rios=8950 wios=1252 dbytes=50331648 dios=3021\n",
}
V2_USE = Use(
    sampled_at=NOW,
    cpu_seconds=7.204118,
    peak_memory=94371840,
    working_set=71303168 - 53477376,
    bytes_read=1459200 + 90430464,
    bytes_written=314773504 + 299008000,
)
HYBRID_FILES = {
    "cpuacct/{}/cpuacct.usage": "91321739\n",
    "memory/{}/memory.max_usage_in_bytes": "4952064\n",
    "memory/{}/memory.usage_in_bytes": "3596288\n",
    "memory/{}/memory.stat": "cache 3178496\nrss 53248\ninactive_file 3145728\nhierarchical_memory_limit "
    "9223372036854771712\ntotal_cache 3178496\ntotal_inactive_file 3145728\ntotal_active_file 32768\n",
    "blkio/{}/blkio.throttle.io_service_bytes": "Total 0\n",
    "unified/{}/cpu.stat": "usage_usec 91321\nuser_usec 76101\nsystem_usec 15220\nnice_usec 0\n",
}
HYBRID_USE = Use(sampled_at=NOW, cpu_seconds=0.091321739, peak_memory=4952064, working_set=3596288 - 3145728)
FILES = {"v1": V1_FILES, "v2": V2_FILES, "hybrid": HYBRID_FILES}
V1_PATHS = (
    f"/docker/{ID}",
    f"/system.slice/docker-{ID}.scope",
    f"/libpod_parent/libpod-{ID}",
    f"/docker/{OTHER}/docker/{ID}",
)
V2_PATHS = (
    f"/docker/{ID}",
    f"/system.slice/docker-{ID}.scope",
    f"/machine.slice/libpod-{ID}.scope/container",
    f"/docker/{ID}/init.scope",
    f"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope",
)

V1_HIERARCHIES = ((2, "cpuacct"), (4, "memory"), (7, "blkio"))


class Machine:
    """The files below /proc and the cgroups of a machine, as the kernel shows them."""

    def __init__(self, folder, *, version, path):
        self.folder, self.version, self.path = folder, version, path
        self.proc, self.mounts = folder / "proc", folder / "cgroup"
        self.inspections = 0
        self.pids = [PID]
        self.write_proc()
        self.add(ID)

    def write_proc(self):
        for name, lines in ((f"{PID}/cgroup", self.paths()), ("self/mountinfo", self.mountinfo())):
            file = self.proc / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{line}\n" for line in lines))

    def paths(self):
        v1 = [f"{number}:{name}:{self.path}" for number, name in V1_HIERARCHIES] if self.version != "v2" else []
        return [*v1, f"0::{'/' if self.version == 'v1' else self.path}"]

    def mountinfo(self):
        v1 = [
            f"3{number} 31 0:3{number} / {self.mounts}/{name} rw,relatime shared:1 - cgroup cgroup rw,{name}"
            for number, name in V1_HIERARCHIES
        ]
        point = self.mounts / "unified" if self.version == "hybrid" else self.mounts
        v2 = [f"41 31 0:38 / {point} rw,relatime - cgroup2 cgroup2 rw,nsdelegate"]
        return ["23 1 8:1 / / rw - ext4 /dev/root rw", *{"v1": v1, "v2": v2, "hybrid": v1 + v2}[self.version]]

    def add(self, container_id, without=()):
        for name, text in FILES[self.version].items():
            directory = self.path.partition(ID)[0] + container_id + self.path.partition(ID)[2].partition("/")[0]
            file = self.mounts / name.format(directory.lstrip("/"))
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.name not in without:
                file.write_text(text)

    def remove_all(self):
        shutil.rmtree(self.mounts)

    async def first_process(self, tag, container_id):
        assert (tag, container_id) == (TAG, ID)
        self.inspections += 1
        pid = self.pids[0] if len(self.pids) == 1 else self.pids.pop(0)
        if pid is None:
            raise ContainerGone("no such container")
        return pid

    def reader(self):
        return UseReader(self.first_process, proc=self.proc)


@pytest.mark.parametrize(
    ("version", "path", "expected"),
    [
        *(("v1", path, V1_USE) for path in V1_PATHS),
        *(("v2", path, V2_USE) for path in V2_PATHS),
        ("hybrid", f"/docker/{ID}", HYBRID_USE),
    ],
)
async def test_the_use_of_all_containers_is_read_after_one_inspection_of_one(tmp_path, version, path, expected):
    machine = Machine(tmp_path, version=version, path=path)
    machine.add(OTHER)
    reader = machine.reader()

    for _ in range(3):
        assert await reader.measure({TAG: ID, OTHER_TAG: OTHER}, NOW) == {TAG: expected, OTHER_TAG: expected}

    assert machine.inspections == 1


@pytest.mark.parametrize(
    ("version", "missing", "figures"),
    [
        ("v1", "memory.stat", ["working_set"]),
        ("v1", "memory.max_usage_in_bytes", ["peak_memory"]),
        ("v1", "cpuacct.usage", ["cpu_seconds"]),
        ("v1", "blkio.throttle.io_service_bytes", ["bytes_read", "bytes_written"]),
        ("v2", "memory.current", ["working_set"]),
        ("v2", "io.stat", ["bytes_read", "bytes_written"]),
    ],
)
async def test_a_figure_whose_file_is_missing_is_not_measured(tmp_path, version, missing, figures):
    machine = Machine(tmp_path, version=version, path=f"/docker/{ID}")
    machine.add(OTHER, without=[missing])

    found = (await machine.reader().measure({TAG: ID, OTHER_TAG: OTHER}, NOW))[OTHER_TAG]

    expected = V1_USE if version == "v1" else V2_USE
    names = [name for name in expected.__struct_fields__ if getattr(found, name) is None]
    assert names == figures


async def test_the_peak_is_that_of_the_samples_before_linux_5_19(tmp_path):
    machine = Machine(tmp_path, version="v2", path=f"/docker/{ID}")
    machine.add(OTHER, without=["memory.peak"])

    found = await machine.reader().measure({TAG: ID, OTHER_TAG: OTHER}, NOW)

    assert found[OTHER_TAG].peak_memory == 71303168


async def test_io_that_the_kernel_does_not_count_is_not_measured(tmp_path):
    machine = Machine(tmp_path, version="v1", path=f"/docker/{ID}")
    (machine.mounts / "blkio/docker" / ID / "blkio.throttle.io_service_bytes").write_text("Total 0\n")

    found = (await machine.reader().measure({TAG: ID}, NOW))[TAG]

    assert (found.bytes_read, found.bytes_written) == (None, None)


async def test_without_containers_no_layout_is_learnt(tmp_path):
    machine = Machine(tmp_path, version="v2", path=V2_PATHS[0])

    assert await machine.reader().measure({}, NOW) == {}
    assert machine.inspections == 0


async def test_a_container_without_a_cgroup_is_left_out(tmp_path):
    machine = Machine(tmp_path, version="v2", path=f"/docker/{ID}")

    assert (await machine.reader().measure({TAG: ID, OTHER_TAG: OTHER}, NOW)).keys() == {TAG}


@pytest.mark.parametrize("pids", [[0], [None], [PID, 0]])
async def test_a_container_that_has_ended_does_not_teach_the_layout(tmp_path, pids):
    machine = Machine(tmp_path, version="v1", path=f"/docker/{ID}")
    (machine.proc / str(PID) / "cgroup").unlink()
    machine.pids = pids
    reader = machine.reader()

    assert await reader.measure({TAG: ID}, NOW) == {}

    machine.write_proc()
    machine.pids = [PID]
    assert await reader.measure({TAG: ID}, NOW) == {TAG: V1_USE}


async def test_nothing_is_measured_without_the_cgroups_of_the_host_and_that_is_logged_once(tmp_path, caplog):
    machine = Machine(tmp_path, version="v1", path="/")  # as a server in a container sees it
    reader = machine.reader()

    assert [await reader.measure({TAG: ID}, NOW) for _ in range(2)] == [None, None]

    assert [record.message for record in caplog.records] == [
        "CPU time and memory of containers are not measured: this process cannot read their cgroups"
    ]


async def test_the_layout_is_learnt_again_when_no_cgroup_is_found_once_a_minute(tmp_path):
    machine = Machine(tmp_path, version="v1", path=f"/docker/{ID}")
    reader = machine.reader()
    await reader.measure({TAG: ID}, NOW)
    machine.remove_all()
    machine.path = f"/system.slice/docker-{ID}.scope"  # the engine was restarted with another cgroup driver
    machine.write_proc()
    machine.add(ID)

    assert await reader.measure({TAG: ID}, NOW + LEARN_INTERVAL - timedelta(seconds=1)) == {}
    assert machine.inspections == 1
    found = await reader.measure({TAG: ID}, NOW + LEARN_INTERVAL)
    assert found[TAG].cpu_seconds == V1_USE.cpu_seconds
