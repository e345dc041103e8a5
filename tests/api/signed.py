"""Requests signed as boto3 signs them, and ways to meddle with them. botocore is the judge of what is right."""

import random
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote

from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from api.signatures import Sent
from batchq.keys import Key

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
KEY = Key(id="BQIAEXAMPLEEXAMPLE22", secret="a secret/of+forty=letters-and~then~some", user="ada", created_at=NOW)
ODD = "aZ09-_.~ +/?&=%#é\u4e2d\U0001f600:;,'\"<>*"


class At(SigV4Auth):
    """botocore's signer at a time that is given."""

    def __init__(self, at, key=KEY, service="batch", region="eu-central-1", scope=None):
        super().__init__(Credentials(key.id, key.secret), service, region)
        self._at = at
        self._scope = scope

    def add_auth(self, request):
        request.context["timestamp"] = self._at.strftime(SIGV4_TIMESTAMP)
        self._modify_request_before_signing(request)
        said = self.string_to_sign(request, self.canonical_request(request))
        self._inject_signature_to_request(request, self.signature(said, request))


def signed(*, method="POST", target="/v1/submitjob", headers=(), body=b"{}", at=NOW, **how):
    """As it comes over the wire."""
    base = {"Host": "127.0.0.1:22824", "Content-Type": "application/json", **dict(headers)}
    request = AWSRequest(method, f"http://127.0.0.1:22824{target}", headers=base, data=body)
    At(at, **how).add_auth(request)
    return Sent(method=method, target=target, headers=tuple(request.headers.items()), body=body)


def random_request(seed):
    dice = random.Random(seed)
    path = "/v1/tags/arn" + quote("".join(dice.choices(ODD, k=dice.randint(0, 20))), safe="")
    pairs = [
        f"{quote(dice.choice(ODD) + 'k', safe='')}={quote(''.join(dice.choices(ODD, k=3)), safe='')}"
        for _ in range(dice.randint(0, 4))
    ]
    headers = {f"X-Amz-{name}": f"  {name}   v{dice.random()} " for name in dice.sample(["Meta", "Target", "Odd"], 2)}
    body = dice.randbytes(dice.randint(0, 200))
    method = dice.choice(["GET", "POST", "DELETE"])
    return signed(method=method, target=path + ("?" + "&".join(pairs) if pairs else ""), headers=headers, body=body)


def header(sent, name):
    return next(value for line, value in sent.headers if line.lower() == name.lower())


def with_header(sent, name, value):
    """In the place of the one it has, or beside the others."""
    kept = tuple(it for it in sent.headers if it[0].lower() != name.lower())
    return replace(sent, headers=(*kept, (name, value)))


def without(sent, name):
    return replace(sent, headers=tuple(it for it in sent.headers if it[0].lower() != name.lower()))


def one_byte_changed(sent, seed):
    """Somewhere in what is signed: the method, the target, a signed header, the signature, the body."""
    dice = random.Random(seed)
    covered = header(sent, "Authorization").partition("SignedHeaders=")[2].partition(",")[0].split(";")
    where = dice.choice(["method", "target", "header", "signature", *(["body"] if sent.body else [])])
    match where:
        case "method":
            return replace(sent, method={"GET": "POST", "POST": "PUT", "DELETE": "GET"}[sent.method])
        case "target":
            return replace(sent, target=sent.target + "x")
        case "header":
            name = dice.choice(covered)
            return with_header(sent, name, _changed(header(sent, name).strip(), dice))
        case "signature":
            said = header(sent, "Authorization")
            return with_header(sent, "Authorization", said[:-1] + ("0" if said[-1] != "0" else "1"))
        case _:
            at = dice.randrange(len(sent.body))
            return replace(sent, body=sent.body[:at] + bytes([sent.body[at] ^ 1]) + sent.body[at + 1 :])


def _changed(text, dice):
    at = dice.randrange(len(text))
    return text[:at] + ("a" if text[at] != "a" else "b") + text[at + 1 :]
