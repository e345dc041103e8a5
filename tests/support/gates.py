"""The gate of a server with keys."""

from batchq.api.auth.authentication import Callers, KeyAuthentication, gate
from batchq.api.auth.sessions import LoginCodes, Sessions
from batchq.api.http.credentials import CredentialVerifier
from batchq.domain.access.accounts import UserName
from batchq.system.clock import wall_time


def key_authentication(keys, *, directory, throttle):
    """`keys` by id."""
    return KeyAuthentication(
        verifier=CredentialVerifier(find=keys.get, now=wall_time),
        throttle=throttle,
        callers=Callers(directory=directory, user_of=lambda key: UserName(keys[key].user) if key in keys else None),
        sessions=Sessions(find=keys.get, instance="an-instance", now=wall_time),
        codes=LoginCodes(wall_time),
    )


def key_gate(keys, *, directory, throttle):
    return gate(key_authentication(keys, directory=directory, throttle=throttle), now=wall_time)
