"""ARNs of the log group and its streams.

ARNs in responses have the caller's region; the region of an ARN in a request is ignored.
"""

import re

from msgspec import Struct

from batchq.logs.service import GROUP

_GROUP = re.compile(r"arn:aws[a-z-]*:logs:[a-z0-9-]*:(?P<account>[0-9]*):log-group:(?P<name>[^:]+)(?::\*)?")


class LogArns(Struct, frozen=True, kw_only=True):
    """Formats and parses ARNs for one caller."""

    #: The account id of the server.
    account: str
    #: The region of the caller's credential, or the server's.
    region: str

    @property
    def group(self) -> str:
        return f"arn:aws:logs:{self.region}:{self.account}:log-group:{GROUP}"

    def stream(self, name: str) -> str:
        return f"{self.group}:log-stream:{name}"

    def names_group(self, identifier: str) -> bool:
        """Whether `identifier` is the name or an ARN of the log group."""
        arn = _GROUP.fullmatch(identifier)
        return identifier == GROUP if arn is None else (arn["account"], arn["name"]) == (self.account, GROUP)
