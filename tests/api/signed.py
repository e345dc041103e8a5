"""Requests signed by botocore, and functions that change them. botocore is the reference."""

import random
import string
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

import botocore.session
from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.credentials import Credentials
from msgspec.structs import replace

from batchq.accounts.files import AccessKey
from batchq.api.http.credentials import SignedRequest

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
KEY = AccessKey(id="BQIAEXAMPLEEXAMPLE22", secret="a secret/of+forty=letters-and~then~some", user="ada", created_at=NOW)
SESSION = botocore.session.get_session()
TOKENS = None, "of+a/session=="
CHARACTERS = string.ascii_letters + string.digits + string.punctuation
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
        to_sign = self.string_to_sign(request, self.canonical_request(request))
        self._inject_signature_to_request(request, self.signature(to_sign, request))


def signed(*, method="POST", target="/v1/submitjob", headers=(), body=b"{}", at=NOW, **how):
    """A signed request as the server receives it, without the headers that are None."""
    base = {"Host": "127.0.0.1:22824", "Content-Type": "application/json", **dict(headers)}
    base = {name: value for name, value in base.items() if value is not None}
    request = AWSRequest(method, f"http://127.0.0.1:22824{target}", headers=base, data=body)
    At(at, **how).add_auth(request)
    return SignedRequest(method=method, target=target, headers=tuple(request.headers.items()), body=body)


def random_request(seed, *, at=NOW):
    dice = random.Random(seed)
    path = "/v1/tags/arn" + quote(words(dice, 20), safe="")
    pairs = [
        f"{quote(dice.choice(ODD) + 'k', safe='')}={quote(''.join(dice.choices(ODD, k=3)), safe='')}"
        for _ in range(dice.randint(0, 4))
    ]
    headers = {f"X-Amz-{name}": f"  {name}   v{dice.random()} " for name in dice.sample(["Meta", "Target", "Odd"], 2)}
    body = dice.randbytes(dice.randint(0, 200))
    method = dice.choice(["GET", "POST", "DELETE"])
    target = path + ("?" + "&".join(pairs) if pairs else "")
    return signed(method=method, target=target, headers=headers, body=body, at=at)


class Boto3:
    """Clients of boto3, whose requests are caught as they leave for the wire. They sign by the clock."""

    def __init__(self, key=KEY):
        self._key = key
        self._caught = None
        self._clients = {(name, token): self._client(name, token) for name in ("batch", "logs") for token in TOKENS}

    def random_request(self, seed):
        """A call that our server has, with names as odd as may be."""
        dice = random.Random(seed)
        batch, logs = (self._clients[name, dice.choice(TOKENS)] for name in ("batch", "logs"))
        arn = f"arn:aws:batch:eu-central-1:123456789012:job-definition/{words(dice, 20)}:1"
        calls = [
            lambda: batch.list_tags_for_resource(resourceArn=arn),
            lambda: batch.tag_resource(resourceArn=arn, tags={words(dice, 9): words(dice, 9)}),
            lambda: batch.untag_resource(resourceArn=arn, tagKeys=["the same", *dice.choices(ODD, k=4), "the same"]),
            lambda: batch.describe_jobs(jobs=[words(dice, 30)]),
            lambda: batch.submit_job(
                jobName=words(dice, 9), jobQueue="q", jobDefinition="d", tags={"a": words(dice, 9)}
            ),
            lambda: logs.get_log_events(logGroupName="/aws/batch/job", logStreamName=words(dice, 30)),
        ]
        dice.choice(calls)()
        return self._caught

    def close(self):
        for client in self._clients.values():
            client.close()

    def _client(self, service, token):
        client = SESSION.create_client(
            service,
            endpoint_url="http://127.0.0.1:22824",
            region_name="eu-central-1",
            aws_access_key_id=self._key.id,
            aws_secret_access_key=self._key.secret,
            aws_session_token=token,
        )
        client.meta.events.register("before-send", self._catch)
        return client

    def _catch(self, request, **_):
        """Keep the request, and return a response in place of the server's."""
        where = urlsplit(request.url)
        target = where.path + (f"?{where.query}" if where.query else "")
        headers = [
            (name, content.decode() if isinstance(content, bytes) else content)
            for name, content in request.headers.items()
        ]
        whole = (("Host", where.netloc), *headers)
        self._caught = SignedRequest(method=request.method, target=target, headers=whole, body=request.body or b"")
        answer = AWSResponse(request.url, 200, {}, None)
        answer._content = b"{}"
        return answer


def words(dice, most):
    """Characters that clients, proxies and servers quote differently; at least one."""
    return "".join(dice.choices(ODD, k=dice.randint(1, most)))


def header(sent, name):
    return next(value for line, value in sent.headers if line.lower() == name.lower())


def with_header(sent, name, value):
    """Replace the header, or add it."""
    kept = tuple(other_header for other_header in sent.headers if other_header[0].lower() != name.lower())
    return replace(sent, headers=(*kept, (name, value)))


def without(sent, name):
    return replace(
        sent, headers=tuple(other_header for other_header in sent.headers if other_header[0].lower() != name.lower())
    )


def one_byte_changed(sent, seed):
    """Change one byte of the signed parts: method, target, value of a signed header, Authorization, body.

    White space is not changed: its length between words is not signed.
    """
    dice = random.Random(seed)
    covered = header(sent, "Authorization").partition("SignedHeaders=")[2].partition(",")[0].split(";")
    where = dice.choice(["method", "target", *covered, "Authorization", *(["body"] if sent.body else [])])
    match where:
        case "method" | "target":
            return replace(sent, **{where: _changed(getattr(sent, where), dice)})
        case "body":
            at = dice.randrange(len(sent.body))
            other = sent.body[at] ^ dice.randint(1, 255)
            return replace(sent, body=sent.body[:at] + bytes([other]) + sent.body[at + 1 :])
        case name:
            return with_header(sent, name, _changed(header(sent, name), dice))


def _changed(text, dice):
    at = dice.choice([at for at, character in enumerate(text) if character != " "])
    other = dice.choice(CHARACTERS.replace(text[at], ""))
    return text[:at] + other + text[at + 1 :]
