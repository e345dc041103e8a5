"""The accounts of a simulation. In some, half of the jobs belong to an account whose vCPUs are limited."""

from zlib import crc32

from msgspec.structs import replace

from batchq.domain.access.accounts import (
    Account,
    AccountLimits,
    AccountName,
    Caller,
    Directory,
    Owner,
)
from tests.support.builders import ADMIN, PEOPLE

TEAM = AccountName("team")
MEMBER = replace(ADMIN, account=TEAM, lineage=(TEAM, *ADMIN.lineage))


def directory(vcpus: float | None) -> Directory:
    """The users and the account; it has no limit if `vcpus` is None."""
    team = Account(name=TEAM, limits=AccountLimits(vcpus=vcpus))
    return Directory(users=PEOPLE.users, accounts={TEAM: team})


def submitter(job_name: str, vcpus: float | None) -> Caller:
    """The caller that submits the job of this name, every time."""
    return MEMBER if vcpus is not None and crc32(job_name.encode()) % 2 else ADMIN


def is_limited(owner: Owner) -> bool:
    return owner.account == TEAM
