"""ARNs of the one group and its streams. The region is only the one the caller speaks from."""

import re

from msgspec import Struct

from batchq.logs.service import GROUP

_GROUP = re.compile(r"arn:aws[a-z-]*:logs:[a-z0-9-]*:(?P<account>[0-9]*):log-group:(?P<name>[^:]+)(?::\*)?")


class LogArns(Struct, frozen=True, kw_only=True):
    """ARNs as one caller sees them."""

    account: str
    region: str

    @property
    def group(self) -> str:
        return f"arn:aws:logs:{self.region}:{self.account}:log-group:{GROUP}"

    def stream(self, name: str) -> str:
        return f"{self.group}:log-stream:{name}"

    def names_group(self, identifier: str) -> bool:
        """Whether a name or an ARN is that of the group."""
        arn = _GROUP.fullmatch(identifier)
        return identifier == GROUP if arn is None else (arn["account"], arn["name"]) == (self.account, GROUP)
