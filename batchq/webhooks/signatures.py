"""Signatures of Standard Webhooks 1.0: HMAC-SHA256 over the id, the time and the body of a message."""

import base64
import hmac
import secrets
from collections.abc import Iterable
from hashlib import sha256

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signature_header(secrets_of_webhook: Iterable[str], *, message_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`: one signature for each secret. `timestamp`: seconds since 1970."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{_signature(secret, signed)}" for secret in secrets_of_webhook)


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()
