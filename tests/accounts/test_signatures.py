"""Signature Version 4 as batchq computes it. botocore's signer is the reference."""

import random
from string import ascii_lowercase, digits
from urllib.parse import urlsplit

import pytest
from botocore.awsrequest import AWSRequest
from botocore.utils import normalize_url_path
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from batchq.accounts.signatures import SigningKey, is_normalized, signed_headers, sigv4_signature
from batchq.api.http.credentials import SignedRequest, SigV4Verifier
from tests.api.signed import KEY, NOW, At, random_request

OWN = SigningKey(KEY.id, KEY.secret, "eu-central-1", "batch")
VISIBLE = some.text(some.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#?"), max_size=30)
PAIRS = some.text(some.sampled_from("ab=&%+~/?"), max_size=20)
VALUES = some.text(some.characters(min_codepoint=0x20, max_codepoint=0x7E) | some.just("\t"), max_size=30)
#: botocore leaves some names out, as those of proxies. A server signs the names that the client lists.
NAMES = (
    some.text(f"{ascii_lowercase}{digits}-", min_size=1, max_size=12)  # `from_regex` examines all characters of Unicode
    .map("x-".__add__)
    .filter(lambda value: value != "x-amzn-trace-id")
)


def of_botocore(method, url, headers, body, at=NOW):
    request = AWSRequest(method, url, headers=headers, data=body)
    At(at).add_auth(request)
    return dict(request.headers.items())


@pytest.mark.fault("SE03")
@given(VISIBLE, PAIRS, some.dictionaries(NAMES, VALUES, max_size=3), some.binary(max_size=64))
def test_the_signature_of_any_request_is_that_of_botocore(tail, query, more, body):
    url = f"http://127.0.0.1:22824/{tail}?{query}"
    path = urlsplit(url).path
    if not is_normalized(path):
        return
    reference = of_botocore("POST", url, {"Host": "127.0.0.1:22824", **more}, body)
    headers = {name.lower(): value for name, value in reference.items() if name != "Authorization"}

    own = sigv4_signature(OWN, method="POST", path=path, query=query, headers=headers, body=body)

    assert reference["Authorization"].endswith(f"Signature={own}")


@pytest.mark.fault("SE03")
@pytest.mark.parametrize("url", ["http://h", "https://h:8443/v1/jobs?a=b", "http://[::1]:22824/v1/tags/arn%3Aa%2Fb"])
def test_a_client_signs_as_botocore_does(url):
    headers = {"Content-Type": "application/json", "X-Amz-Meta": "a  b"}

    sent = signed_headers(OWN, method="PUT", url=url, headers=headers, body=b"{}", now=NOW)

    assert sent == of_botocore("PUT", url, {**headers, "Host": urlsplit(url).netloc}, b"{}")


@given(some.text(some.sampled_from("/.a%"), max_size=12).map("/".__add__))
def test_a_path_is_normalized_if_botocore_leaves_it_as_it_is(path):
    assert is_normalized(path) == (normalize_url_path(path) == path)


@pytest.mark.fault("SE03")
def test_a_signed_request_is_verified_with_its_headers_in_any_order():
    sent = random_request(7)
    verifier = SigV4Verifier(find={KEY.id: KEY}.get, now=lambda: NOW)

    shuffled = random.Random(7).sample(sent.headers, len(sent.headers))

    assert verifier.verify(replace(sent, headers=tuple(shuffled))) == KEY.id


def test_a_signature_may_cover_a_header_that_botocore_leaves_out():
    headers = {"host": "h", "user-agent": "a client", "x-amz-date": "20261121T120000Z"}
    signature = sigv4_signature(OWN, method="GET", path="/v1/jobs", query="", headers=headers, body=b"")
    credential = f"{KEY.id}/20261121/eu-central-1/batch/aws4_request"
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={';'.join(headers)}, Signature={signature}"
    )
    lines = (*headers.items(), ("Authorization", authorization))

    sent = SignedRequest(method="GET", target="/v1/jobs", headers=lines, body=b"")

    assert SigV4Verifier(find={KEY.id: KEY}.get, now=lambda: NOW).verify(sent) == KEY.id
