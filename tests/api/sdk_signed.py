"""Requests signed with SDK-HMAC-SHA256, as huaweicloudsdkcore 3.1.219 signs, and some that it has signed itself."""

import hashlib
import hmac
import random
from urllib.parse import quote, unquote

from batchq.api.http.credentials import SignedRequest
from tests.api.signed import KEY, NOW, words

PROJECT = "7c1e5d20b9a34f6e8d20aa41c3f09b55"
JOBS = f"/v2/{PROJECT}/training-jobs"
DATE = "%Y%m%dT%H%M%SZ"


def sdk_signed(*, method="POST", path=f"{JOBS}/a-job/actions", query=(), body=b"{}", at=NOW, key=KEY, headers=()):
    """A signed request as the server receives it, without the headers that are None. `query`: pairs."""
    sent = {
        "Content-Type": "application/json",
        "User-Agent": "huaweicloud-usdk-python/3.0",
        "X-Project-Id": PROJECT,
        "X-Sdk-Date": at.strftime(DATE),
        "Host": "127.0.0.1:22824",
        **dict(headers),
    }
    sent = {name: value for name, value in sent.items() if value is not None}
    line = "&".join(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in sorted(query))
    names = sorted(text.lower() for text in sent if "_" not in text)
    values = {name.lower(): value.strip() for name, value in sent.items()}
    hashed = hashlib.sha256(body).hexdigest()
    signed_path = "/".join(quote(part, safe="~") for part in unquote(path).split("/")) + "/"
    lines = "".join(f"{name}:{values[name]}\n" for name in names)
    canonical = "\n".join([method, signed_path, line, lines, ";".join(names), hashed])
    to_sign = f"SDK-HMAC-SHA256\n{sent['X-Sdk-Date']}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = hmac.new(key.secret.encode(), to_sign.encode(), hashlib.sha256).hexdigest()
    sent["Authorization"] = f"SDK-HMAC-SHA256 Access={key.id}, SignedHeaders={';'.join(names)}, Signature={signature}"
    return SignedRequest(
        method=method, target=path + (f"?{line}" if line else ""), headers=tuple(sent.items()), body=body
    )


def random_sdk_request(seed, *, at=NOW):
    dice = random.Random(seed)
    name = words(dice, 20).replace("/", "_")
    path = f"{JOBS}/x{quote(name, safe='~' if seed % 2 else '~:@')}/events"
    query = [(words(dice, 3) + "k", words(dice, 5)) for _ in range(dice.randint(0, 4))]
    method, body = dice.choice(["GET", "POST", "DELETE"]), dice.randbytes(dice.randint(0, 200))
    headers = {"X-Sdk-Meta": f"  v{dice.random()} "} if seed % 3 else {}
    return sdk_signed(method=method, path=path, query=query, body=body, headers=headers, at=at)


HEADERS = (
    ("User-Agent", "huaweicloud-usdk-python/3.0"),
    ("X-Project-Id", PROJECT),
    ("X-Sdk-Date", "20261121T120000Z"),
    ("x_trace", "1"),
    ("Host", "127.0.0.1:22824"),
)
NAMES = "content-type;host;user-agent;x-project-id;x-sdk-date"


def _recorded(method, target, body, signature, media="application/json"):
    authorization = f"SDK-HMAC-SHA256 Access={KEY.id}, SignedHeaders={NAMES}, Signature={signature}"
    headers = (("Content-Type", media), *HEADERS, ("Authorization", authorization))
    return SignedRequest(method=method, target=target, headers=headers, body=body)


BY_THE_SDK = {
    "an action": _recorded(
        "POST",
        f"{JOBS}/91d0a6b4-3f52-4f0e-b1a7-64c5d2f7e810/actions",
        b'{"action_type":"terminate"}',
        "7c5612480e996c527fed8020af36990abdbafbe4f2f06c8e2b30c766e99cabe5",
        "application/json;charset=utf-8",
    ),
    "a query": _recorded(
        "GET",
        f"{JOBS}/91d0a6b4/events?limit=5&order=desc&pattern=a%20b%26c%3Dd%2F%C3%A9~%2A",
        b"",
        "09d6798f06cba007924b1115736ee042007a02868fd05f8194d562e39121068c",
    ),
    "a path that is quoted in part": _recorded(
        "DELETE", f"{JOBS}/a%20b:c", b"", "8ed99beb95baf32c253fa71d83f7e4bd7bbb626d30a8f70d52eeef643ffa6882"
    ),
    "a list in the query": _recorded(
        "GET",
        f"/v2/{PROJECT}/training-job-flavors?flavor_type=CPU&flavor_type=GPU&on=true",
        b"",
        "25ad179b9135789392443dd8535ebd94de6765466b2911641c1e73c33993f982",
    ),
}
"""Signed by the SDK with KEY, at NOW."""
