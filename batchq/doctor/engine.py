"""Findings about the container engine."""

from batchq.doctor.facts import DiskSpace, EngineFacts, EngineFault, EngineTrouble
from batchq.doctor.finding import Finding, Findings, ok, problem, warning

ENGINE = "engine"
OLDEST_API = (1, 41)  # the API of Docker 20.10
TIGHT, FULL = 2 * 2**30, 256 * 2**20  # bytes free on the engine's disk

UNAVAILABLE = {
    EngineFault.ABSENT: (
        "there is none at {0}",
        "Install Docker or start it (systemctl start docker), or set DOCKER_HOST.",
    ),
    EngineFault.FORBIDDEN: (
        "this user may not use {0}",
        "Add the user to the group docker (usermod -aG docker USER) and log in anew.",
    ),
    EngineFault.DEAF: ("nobody listens at {0}", "Start Docker (systemctl start docker)."),
    EngineFault.SILENT: (
        "it takes calls at {0} and does not answer them",
        "See its log; restart it (systemctl restart docker).",
    ),
    EngineFault.STRANGE: (
        "what answers at {0} is no engine that batchq knows",
        "Look at DOCKER_HOST and at the engine's log.",
    ),
}


def findings(engine: EngineFacts | EngineTrouble | None) -> Findings:
    match engine:
        case None:
            yield ok(ENGINE, "containers are only simulated here")
        case EngineTrouble():
            yield _unavailable(engine)
        case EngineFacts():
            yield from _answers(engine)


def _unavailable(trouble: EngineTrouble) -> Finding:
    says, do = UNAVAILABLE[trouble.kind]
    return problem(ENGINE, f"{says.format(trouble.address)}: {trouble.words}; jobs wait", do)


def _answers(engine: EngineFacts) -> Findings:
    if _numbers(engine.api) < OLDEST_API:
        oldest = ".".join(map(str, OLDEST_API))
        says = f"Docker {engine.version} speaks API {engine.api}, and batchq needs {oldest}"
        yield problem(ENGINE, says, "Install Docker 20.10 or later.")
    else:
        yield ok(
            ENGINE, f"Docker {engine.version} answers at {engine.address}, API {engine.api}, cgroup v{engine.cgroup}"
        )
    yield from _live_restore(engine)
    if engine.lacks:
        says = f"it cannot limit {', '.join(engine.lacks)}, so a job can take more than it asked for"
        yield warning(ENGINE, says, "Enable these cgroup controllers on the kernel's command line.")
    if engine.room is not None:
        yield _disk(f"its disk ({engine.root})", engine.room)


def _live_restore(engine: EngineFacts) -> Findings:
    if engine.live_restore:
        yield ok(ENGINE, "live-restore is on: jobs outlive a restart of Docker")
    else:
        says = "live-restore is off: when Docker stops or restarts, running jobs end with it"
        do = 'Put {"live-restore": true} into /etc/docker/daemon.json, then systemctl reload docker.'
        yield warning(ENGINE, says, do)


def _disk(name: str, room: DiskSpace) -> Finding:
    says = f"{name} has {room.free / 2**30:.1f} GiB free of {room.size / 2**30:.0f}"
    do = "Remove images that nobody needs (docker image prune), or give it a larger disk."
    if room.free < FULL:
        return problem(ENGINE, f"{says}: containers cannot be made", do)
    return warning(ENGINE, says, do) if room.free < TIGHT else ok(ENGINE, says)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
