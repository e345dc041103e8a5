"""`python -m tests.schedule.packing` measures how well jobs are packed on machines, by the domain alone.

The jobs are those of `tests.schedule`, in one queue, first in, first out, with backfill. They come faster than all
machines together can run them. One machine with the resources of all is the bound.
"""

import argparse
import heapq
from collections import deque
from datetime import timedelta
from random import Random
from statistics import mean, quantiles

from batchq.domain.container import Resources
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.job import AttemptContainer
from batchq.domain.scheduling.capacity import Candidate, Cluster, Fits, FreeCapacity
from batchq.domain.scheduling.machine_rooms import MachineSet
from batchq.domain.scheduling.resources import Usage
from tests.schedule.run import LOAD, LONGEST, SIZES, machines_of
from tests.support import builders
from tests.support.builders import NOON

VCPUS, MIB = 32, 81_920  # of each machine
TRIED = 64  # jobs behind the head, as a placement pass tries


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.schedule.packing", description=__doc__)
    options.add_argument("--machines", type=int, default=10)
    options.add_argument("--jobs", type=int, default=400, help="for each machine")
    options.add_argument(
        "--load", type=float, default=LOAD, help="of what the machines can do, while the work comes in"
    )
    given = options.parse_args()
    for count in (1, given.machines):
        used, waits = pack(count, total=given.machines, jobs=given.jobs * given.machines, load=given.load)
        print(
            f"{count} of {given.machines * VCPUS // count} vCPUs: utilisation {used:.1%} while jobs wait, waits "
            f"{mean(waits):.0f} s on average, 95 % at most {quantiles(waits, n=20)[-1]:.0f} s, "
            f"the longest {max(waits):.0f} s"
        )


def pack(count: int, *, total: int, jobs: int, load: float) -> tuple[float, list[float]]:
    """The part of the vCPUs in use while jobs wait, and the wait of each job in seconds."""
    dice = Random(1)
    host = Resources(millicpus=1000 * VCPUS * total, memory_mib=MIB * total)
    environments = {"local": builders.environment("local", max_millicpus=host.millicpus)}
    machines = MachineSet(machines_of(host, count), environments.values())
    cluster = Cluster(environments=environments, machines=machines, stocks={})
    usage, promised, planned = Usage(), {}, {}
    now = came = used = waiting = held = 0.0
    queue, ends, waits, number = deque(), [], [], 0
    while number < jobs or queue:
        step = min(([came] if number < jobs else []) + ([ends[0][0]] if ends else []))
        if queue:
            used, waiting = used + held * (step - now), waiting + (step - now)
        now = step
        while ends and ends[0][0] <= now:
            _, _, over = heapq.heappop(ends)
            held -= over.spec.resources.millicpus
            usage.update([builders.job(number=over.sequence, status=Status.SUCCEEDED)])
        if number < jobs and came <= now:
            vcpus, seconds = dice.choice(SIZES), min(LONGEST, max(1, round(dice.lognormvariate(3.2, 0.9))))
            memory, timed = dice.choice([512, 1024, 4096]) * vcpus, dice.random() < 0.5
            queue.append((number, 1000 * vcpus, memory, seconds, 2 * seconds + 60 if timed else None, now))
            number += 1
            came += vcpus * seconds / (VCPUS * total) / load
        at = NOON + timedelta(seconds=now)
        room = FreeCapacity(cluster=cluster, usage=usage.after(()), now=at, promised=promised, planned=planned)
        started, is_blocked = [], False
        for tried, entry in enumerate(queue):
            if tried > TRIED or (is_blocked and room.closed(["local"])):
                break
            order, millicpus, memory, seconds, timeout, since = entry
            longest = None if timeout is None else timedelta(seconds=timeout)
            wanted = Resources(millicpus=millicpus, memory_mib=memory)
            candidate = Candidate(job_id=builders.job_id(order), sequence=order, resources=wanted, timeout=longest)
            offer = room.place_if_no_delay if is_blocked else room.place_or_reserve
            placed = offer(candidate, ["local"])
            if not isinstance(placed, Fits):
                is_blocked = True
                continue
            machine = placed.machines[0] if placed.machines else None
            alone = AttemptContainer(state=AttemptContainerState.RUNNING, machine=machine, started_at=at)
            under_way = builders.attempt(environment="local", started_at=at, containers=(alone,))
            runs = builders.job(
                number=order,
                status=Status.RUNNING,
                attempt=under_way,
                timeout=longest,
                millicpus=millicpus,
                memory_mib=memory,
            )
            started.append(entry)
            usage.update([runs])
            held += millicpus
            waits.append(now - since)
            heapq.heappush(ends, (now + seconds, order, runs))
        promised, planned = room.promises, room.plans
        for entry in started:
            queue.remove(entry)
    return used / ((waiting or 1.0) * host.millicpus), waits


if __name__ == "__main__":
    main()
