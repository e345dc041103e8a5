"""The parts of a server, for tests that use some of them."""

from msgspec.structs import fields

from batchq.api.batch.routes import InProcessCalls
from batchq.api.http.page_tokens import PageTokens
from batchq.api.native.long_polls import EncodedEvents
from batchq.api.operations.parts import Parts, ServerLimits
from batchq.api.training.modelarts.context import ModelArtsSettings

LIMITS = ServerLimits(min_timeout=60, vcpus=4, privileged=True, s3_root=None)


class Missing:
    """Stands for a part that the test has not given: each use of it fails."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        raise AssertionError(f"the test has no part {self._name}")


def make_parts(**given):
    """Parts with the given fields; `states` are added to those of a server without settings."""
    usual = {
        "account": "123456789012",
        "region": "us-east-1",
        "tokens": PageTokens(bytes(32)),
        "limits": LIMITS,
        "batch_calls": InProcessCalls,
        "keys": None,
    }
    states = {ModelArtsSettings: ModelArtsSettings(), EncodedEvents: EncodedEvents(), **given.pop("states", {})}
    missing = {field.name: Missing(field.name) for field in fields(Parts) if field.required}
    return Parts(**{**missing, **usual, **given, "states": states})
