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
    keys = [base64.b64decode(secret.removeprefix(PREFIX)) for secret in secrets_of_webhook]
    return " ".join(f"v1,{base64.b64encode(hmac.digest(key, signed, sha256)).decode()}" for key in keys)
