"""Why a RUNNABLE job does not fit: what it requires, what is free, and who holds the rest. Pure."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from batchq.domain import status_reasons
from batchq.domain.access.accounts import AccountName
from batchq.domain.catalog import EnvironmentName, JobQueue
from batchq.domain.explanation import words
from batchq.domain.explanation.codes import Code, Explanation, Fact
from batchq.domain.explanation.facts import Holding, Reader, RelatedJobs, SchedulerState
from batchq.domain.explanation.words import explanation
from batchq.domain.ids import ConsumableName, JobId
from batchq.domain.job import Job, JobSpec
from batchq.domain.scheduling.capacity import Cluster, FreeCapacity, Unschedulable, candidate_of_job
from batchq.domain.scheduling.resources import GPUS, MEMORY, Dimension, Usage, units, vcpus

_LIMIT = status_reasons.beyond_limit("|", 0, 0).partition("|")[0]
_MISSING = status_reasons.no_such_resource("|").partition("|")[0]
_UNITS = status_reasons.too_many_units("|", 0, 0).partition("|")[0]
_AT_LIMIT = status_reasons.at_limit("|").partition("|")[0]


class Blocked(Struct, frozen=True, kw_only=True):
    """What blocks a job, as the figures of a row."""

    code: Code
    facts: dict[str, Fact]
    words: dict[str, str]


class Shortage(Struct, frozen=True, kw_only=True):
    """A dimension in which a job does not fit."""

    code: Code
    dimension: Dimension
    required: int
    #: Not held by active jobs; reserved or not.
    free: int
    limit: int
    #: The name of the consumable resource or the compute environment; empty for memory and GPUs.
    name: str = ""


def never(job: Job, queue: JobQueue | None, state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of an unschedulable job."""
    return _explain_never(job, queue, state.cluster, reader, job.status_reason or "")


def never_fits(
    spec: JobSpec, queue: JobQueue, cluster: Cluster, reader: Reader, *, now: datetime
) -> Explanation | None:
    """The explanation that a new job of this specification would get as unschedulable; None: it could be placed.

    None also if no environment of the queue is enabled: then the job waits.
    """
    job = Job(id=JobId(""), order=0, spec=spec, created_at=now)
    idle = FreeCapacity(cluster=cluster, usage=Usage().after(()), now=now)
    outcome = idle.place_if_no_delay(candidate_of_job(job), queue.environments)
    if not isinstance(outcome, Unschedulable):
        return None
    return _explain_never(job, queue, cluster, reader, outcome.reason)


def blocked(
    job: Job, queue: JobQueue, neighbours: RelatedJobs, state: SchedulerState, reader: Reader
) -> Blocked | None:
    """What blocks a RUNNABLE job itself; None for a job that waits behind others."""
    cluster = state.cluster
    assert cluster is not None, "the capacity is not known"
    at_limit = _at_limit(job, cluster, state, reader)
    if at_limit is not None:
        return at_limit
    if job.blocked_at is None:
        return None
    if job.status_reason == status_reasons.KEPT_FOR_SHARES:
        return _kept_for_shares(job, queue, state)
    shortage = _shortage(job, queue, cluster, state)
    if shortage is None:
        return _reserved(job, queue, neighbours, state, reader)
    return _short(shortage, state, reader)


def _explain_never(
    job: Job, queue: JobQueue | None, cluster: Cluster | None, reader: Reader, reason: str
) -> Explanation:
    found = _never(job, queue, cluster, reader, reason)
    named: dict[str, Fact] = {"jobQueue": job.spec.queue}
    return explanation(
        found.code, since=job.blocked_at, facts=named | found.facts, words={"queue": job.spec.queue} | found.words
    )


def _never(job: Job, queue: JobQueue | None, cluster: Cluster | None, reader: Reader, reason: str) -> Blocked:
    size = job.spec.resources
    if reason.startswith(_LIMIT):
        limits = {} if cluster is None else cluster.quotas.millicpus
        binding = () if cluster is None else cluster.quotas.on_millicpus(job.spec.owner.account)
        account = next((name for name in binding if size.millicpus > limits[name]), None)
        return _figures(Code.ABOVE_ACCOUNT_LIMIT, *_account_figures(account, size.millicpus, limits, reader))
    if reason.startswith(_MISSING):
        resource = next(
            (
                requirement.resource
                for requirement in job.spec.needs
                if cluster and requirement.resource not in cluster.stocks
            ),
            None,
        )
        named = {} if resource is None else {"resource": str(resource)}
        return _figures(Code.RESOURCE_MISSING, named, named)
    if reason.startswith(_UNITS):
        return _figures(Code.TOO_MANY_UNITS, *_unit_figures(job, cluster))
    if reason.startswith(status_reasons.TOO_MANY_VCPUS):
        most = _largest(queue, cluster)
        known = {} if most is None else {"required": size.millicpus, "limit": most}
        return _figures(
            Code.TOO_MANY_VCPUS,
            {name: amount / 1000 for name, amount in known.items()},
            {name: words.vcpus_words(amount) for name, amount in known.items()},
        )
    return _figures(Code.TOO_LARGE, *_host_figures(job, cluster))


def _figures(code: Code, facts: Mapping[str, Fact], text: Mapping[str, str]) -> Blocked:
    return Blocked(code=code, facts=dict(facts), words=dict(text))


def _account_figures(
    account: AccountName | None, millicpus: int, limits: Mapping[AccountName, int], reader: Reader
) -> tuple[dict[str, Fact], dict[str, str]]:
    if account is None:
        return {}, {}
    facts: dict[str, Fact] = {"required": millicpus / 1000, "limit": limits[account] / 1000}
    if reader.sees_account(account):
        facts["account"] = account
    text = {
        "required": words.vcpus_words(millicpus),
        "limit": words.vcpus_words(limits[account]),
        "account": reader.account(account),
    }
    return facts, text


def _unit_figures(job: Job, cluster: Cluster | None) -> tuple[dict[str, Fact], dict[str, str]]:
    for need in job.spec.needs:
        stock = None if cluster is None else cluster.stocks.get(need.resource)
        if stock is not None and need.quantity > stock.amount:
            facts: dict[str, Fact] = {"resource": need.resource, "required": need.quantity, "limit": stock.amount}
            return facts, {
                name: words.number(fact) if isinstance(fact, int) else str(fact) for name, fact in facts.items()
            }
    return {}, {}


def _host_figures(job: Job, cluster: Cluster | None) -> tuple[dict[str, Fact], dict[str, str]]:
    if cluster is None:
        return {}, {}
    size, host = job.spec.resources, cluster.host
    facts: dict[str, Fact] = {}
    required, there = [], []
    if size.memory_mib > host.memory_mib:
        facts |= {"requiredMemoryMiB": size.memory_mib, "memoryMiB": host.memory_mib}
        required.append(f"{words.memory_words(size.memory_mib)} of memory")
        there.append(words.memory_words(host.memory_mib))
    if size.gpus > host.gpus:
        facts |= {"requiredGpus": size.gpus, "gpus": host.gpus}
        required.append(words.counted(size.gpus, "GPU"))
        there.append(words.counted(host.gpus, "GPU"))
    return facts, {"required": words.list_words(required), "limit": words.list_words(there)} if facts else {}


def _largest(queue: JobQueue | None, cluster: Cluster | None) -> int | None:
    """The vCPUs of the largest enabled environment of the queue, in thousandths; None without one."""
    if queue is None or cluster is None:
        return None
    sizes = [cluster.environments[name].max_millicpus for name in cluster.enabled(queue.environments)]
    return max(sizes, default=None)


def _at_limit(job: Job, cluster: Cluster, state: SchedulerState, reader: Reader) -> Blocked | None:
    """The account whose vCPU limit blocks the job: all are in use, or they are kept for another of its jobs."""
    required, limits = job.spec.resources.millicpus, cluster.quotas.millicpus
    binding = cluster.quotas.on_millicpus(job.spec.owner.account)
    used = {name: _used_by(name, cluster, state) for name in binding}
    account = next((name for name in reversed(binding) if used[name] + required > limits[name]), None)
    reason = job.status_reason or ""
    if account is None and reason.startswith(_AT_LIMIT):
        account = next((name for name in binding if reason == status_reasons.at_limit(name)), None)
    if account is None:
        return None
    facts, text = _account_figures(account, required, limits, reader)
    return Blocked(
        code=Code.ACCOUNT_LIMIT,
        facts=facts | {"used": used[account] / 1000},
        words=text | {"used": words.figure(used[account])},
    )


def _used_by(account: AccountName, cluster: Cluster, state: SchedulerState) -> int:
    """The vCPUs in use by an account and the accounts below it, in thousandths."""
    return sum(used for name, used in state.usage.accounts.items() if account in cluster.quotas.on_millicpus(name))


def _kept_for_shares(job: Job, queue: JobQueue, state: SchedulerState) -> Blocked:
    policy = None if queue.policy is None else state.policies.get(queue.policy)
    required = job.spec.resources.millicpus
    facts: dict[str, Fact] = {"required": required / 1000}
    text = {"required": words.vcpus_words(required)}
    if policy is not None:
        facts["reservation"] = policy.reservation
        text["reservation"] = str(policy.reservation)
    return Blocked(code=Code.RESERVED_FOR_SHARES, facts=facts, words=text)


def _shortage(job: Job, queue: JobQueue, cluster: Cluster, state: SchedulerState) -> Shortage | None:
    """The first dimension in which the job does not fit beside the active jobs; None: it fits in an environment."""
    shortages: list[Shortage] = []
    for name in cluster.enabled(queue.environments):
        found = _shortages(job, name, cluster, state)
        if not found:
            return None
        shortages += found
    able = [shortage for shortage in shortages if shortage.required <= shortage.limit]
    return next(iter(able or shortages), None)


def _shortages(job: Job, environment: EnvironmentName, cluster: Cluster, state: SchedulerState) -> list[Shortage]:
    size, held = job.spec.resources, state.usage.sums
    of = vcpus(environment)
    figures = [
        (Code.WAITS_FOR_VCPUS, of, size.millicpus, cluster.environments[environment].max_millicpus, str(environment)),
        (Code.WAITS_FOR_MEMORY, MEMORY, size.memory_mib, cluster.host.memory_mib, ""),
        (Code.WAITS_FOR_GPUS, GPUS, size.gpus, cluster.host.gpus, ""),
    ]
    found = [
        Shortage(code=code, dimension=of, required=required, free=limit - held.get(of, 0), limit=limit, name=name)
        for code, of, required, limit, name in figures
    ]
    found += [
        _unit_shortage(requirement.resource, requirement.quantity, cluster, state) for requirement in job.spec.needs
    ]
    return [shortage for shortage in found if shortage.required > shortage.free]


def _unit_shortage(resource: ConsumableName, required: int, cluster: Cluster, state: SchedulerState) -> Shortage:
    stock, of = cluster.stocks.get(resource), units(resource)
    limit = 0 if stock is None else stock.amount
    held = state.usage.sums.get(of, 0) if stock is not None and stock.returns else 0
    return Shortage(
        code=Code.WAITS_FOR_UNITS, dimension=of, required=required, free=limit - held, limit=limit, name=resource
    )


def _short(shortage: Shortage, state: SchedulerState, reader: Reader) -> Blocked:
    facts: dict[str, Fact] = {
        "required": _fact(shortage, shortage.required),
        "free": _fact(shortage, max(0, shortage.free)),
        "limit": _fact(shortage, shortage.limit),
    }
    text = {
        "required": _amount(shortage, shortage.required),
        "free": _number(shortage, max(0, shortage.free)),
        "limit": _number(shortage, shortage.limit),
    }
    if shortage.name:
        word = "resource" if shortage.code is Code.WAITS_FOR_UNITS else "computeEnvironment"
        facts[word] = shortage.name
        text |= {"resource": shortage.name, "environment": shortage.name}
    held = state.holders.of(shortage.dimension)
    if held.jobs:
        held_facts, held_words = _holders(held, state.now, reader)
        facts, text = facts | held_facts, text | held_words
    return Blocked(code=shortage.code, facts=facts, words=text)


def _fact(shortage: Shortage, amount: int) -> float:
    return amount / 1000 if shortage.code is Code.WAITS_FOR_VCPUS else amount


def _number(shortage: Shortage, amount: int) -> str:
    match shortage.code:
        case Code.WAITS_FOR_VCPUS:
            return words.figure(amount)
        case Code.WAITS_FOR_MEMORY:
            return words.memory_words(amount)
        case _:
            return words.number(amount)


def _amount(shortage: Shortage, amount: int) -> str:
    match shortage.code:
        case Code.WAITS_FOR_VCPUS:
            return words.vcpus_words(amount)
        case Code.WAITS_FOR_GPUS:
            return words.counted(amount, "GPU")
        case _:
            return _number(shortage, amount)


def _holders(held: Holding, now: datetime, reader: Reader) -> tuple[dict[str, Fact], dict[str, str]]:
    """The jobs that hold a resource, and which of them must end first, with the time `left`.

    That job is the word `stopping` if it was ordered to stop, and `earliest` if it has a time limit.
    """
    seen = [job for job in held.jobs if reader.sees(job)][: words.MAX_LISTED]
    rest = len(held.jobs) - len(seen)
    others = [words.counted(rest, "other job") if seen else words.counted(rest, "job")] if rest else []
    text = {"holders": words.joined([*map(reader.job, seen), *others])}
    facts: dict[str, Fact] = {"heldBy": len(held.jobs)}
    facts["holders"] = tuple({"jobId": job.id, "jobName": job.spec.name} for job in seen)
    if held.first_to_end is not None:
        facts["endsBy"], first = held.first_to_end
        text["earliest" if first.stop is None else "stopping"] = reader.job(first)
        text["left"] = words.duration_words(held.first_to_end[0] - now)
    return facts, text


def _reserved(
    job: Job, queue: JobQueue, neighbours: RelatedJobs, state: SchedulerState, reader: Reader
) -> Blocked | None:
    """The job fits, but what it requires is reserved for heads of queues before its own; None if there are none."""
    before = {
        name
        for name, other_queue in state.queues.items()
        if name != queue.name and other_queue.priority >= queue.priority
    }
    heads = [(name, head) for name, head in state.heads.items() if name in before]
    if not heads:
        return None
    known = [(name, neighbours.jobs.get(head.job_id)) for name, head in heads]
    seen = [(name, other_job) for name, other_job in known if other_job is not None and reader.sees(other_job)]
    named = [f"{reader.job(other_job)} in {reader.queue(name)}" for name, other_job in seen]
    others = len(heads) - len(named[: words.MAX_LISTED])
    rest = [words.counted(others, "job", "jobs") + " before it"] if others else []
    parts = [*named[: words.MAX_LISTED], *rest]
    facts: dict[str, Fact] = {
        "required": job.spec.resources.millicpus / 1000,
        "reservedFor": tuple(
            {"jobId": other_job.id, "jobName": other_job.spec.name} for _, other_job in seen[: words.MAX_LISTED]
        ),
    }
    size = job.spec.resources
    required = [words.vcpus_words(size.millicpus)] if size.millicpus else []
    required += [f"{words.memory_words(size.memory_mib)} of memory"]
    required += [words.counted(size.gpus, "GPU")] if size.gpus else []
    return Blocked(
        code=Code.RESERVED_FOR_OTHERS,
        facts=facts,
        words={"required": words.list_words(required), "heads": words.joined(parts)},
    )
