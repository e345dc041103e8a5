"""JSON responses for accounts, users, keys and audit records, without secrets. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from batchq.accounts.access_keys import AccessKey
from batchq.domain.access.accounts import (
    UNSAID,
    Account,
    AccountLimits,
    AccountName,
    Caller,
    ContainerPolicy,
    Directory,
    User,
)
from batchq.domain.access.audit import AuditRecord

Told = Mapping[str, object]


def account(it: Account, people: Directory) -> Told:
    """The account as it is stored, and under `inEffect` its queues and container policy after inheritance.

    `queues` and `allowance` null: inherited from the parent.
    """
    return {
        "name": it.name,
        "parent": it.parent,
        "queues": None if it.queues is None else list(it.queues),
        "allowance": None if it.allowance is None else {**allowance(it.allowance), "root": it.allowance.root},
        "limits": limits(it.limits),
        "inEffect": {"queues": _queues(people, it.name), "allowance": allowance(people.allowance(it.name))},
    }


def allowance(it: ContainerPolicy) -> Told:
    """The container policy; `root` is the value in effect, never null."""
    return {
        "privileged": it.privileged,
        "devices": list(it.devices),
        "volumes": list(it.volumes),
        "hostNetwork": it.host_network,
        "root": it.permits_root,
        "logDrivers": list(it.log_drivers),
        "registries": None if it.registries is None else list(it.registries),
        "vcpus": it.vcpus,
        "memoryMib": it.memory_mib,
    }


def limits(it: AccountLimits) -> Told:
    return {"queued": it.queued, "submits": it.submits, "vcpus": it.vcpus, "logMib": it.log_mib}


def user(it: User) -> Told:
    return {
        "name": it.name,
        "account": it.account,
        "role": it.role.value,
        "coordinates": sorted(it.coordinates),
    }


def key(it: AccessKey) -> Told:
    return {"id": it.id, "user": it.user, "state": it.state.value, "createdAt": _milliseconds(it.created_at)}


def act(it: AuditRecord) -> Told:
    return {
        "at": _milliseconds(it.at),
        "user": it.user,
        "account": it.account,
        "key": it.key or None,
        "requestId": it.request_id or None,
        "operation": it.operation,
        "about": it.about,
        "outcome": it.outcome,
    }


def caller(caller: Caller, people: Directory) -> Told:
    """The identity of the caller, and the queues, container policy and limits that apply to it."""
    return {
        "user": caller.user,
        "account": caller.account,
        "role": caller.role.value,
        "key": caller.key or None,
        "coordinates": sorted(caller.coordinates),
        "queues": None if caller.queues is None else sorted(caller.queues),
        "allowance": allowance(people.allowance(caller.account)),
        "limits": [{"account": it.name, **limits(it.limits)} for it in people.lineage(caller.account)],
    }


def _queues(people: Directory, name: AccountName) -> list[str] | None:
    said = (it.queues for it in people.lineage(name) if it.queues is not None)
    nearest = next(said, None)
    return None if nearest is None else list(nearest)


def _milliseconds(at: datetime) -> int:
    return (at - UNSAID) // timedelta(milliseconds=1)
