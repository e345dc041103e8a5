"""Signature verification. botocore, which signs the requests, is the reference."""

import statistics
import time
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.accounts.files import AccessKey
from batchq.api.auth.authentication import Throttle
from batchq.api.http.credentials import SigV4Verifier
from batchq.api.http.http import HttpRefusal
from batchq.errors import Throttled
from tests.api.signed import KEY, NOW, header, one_byte_changed, random_request, signed, with_header
from tests.support.examples import examples


@pytest.fixture
def verifier():
    return SigV4Verifier(find={KEY.id: KEY}.get, now=lambda: NOW)


def refusal(verifier, sent):
    """HTTP's status and AWS's code."""
    with pytest.raises(HttpRefusal) as why:
        verifier.verify(sent)
    return why.value.status, why.value.code


DENIED = 403, "InvalidSignatureException"
INCOMPLETE = 403, "IncompleteSignatureException"


def test_random_requests_of_botocore_are_accepted(verifier):
    assert {verifier.verify(random_request(seed)) for seed in range(examples(500))} == {KEY.id}


@pytest.mark.fault("SE03")
def test_a_signed_request_with_one_changed_byte_is_refused(verifier):
    error = {refusal(verifier, one_byte_changed(random_request(seed), seed)) for seed in range(examples(2000))}

    assert error <= {DENIED, INCOMPLETE}


def twice(name):
    sent = signed()
    return replace(sent, headers=(*sent.headers, (name, header(sent, name))))


def with_scope_of_another_day():
    authorization = header(signed(), "Authorization")
    return with_header(signed(), "Authorization", authorization.replace("/20261121/", "/20261120/"))


def late(seconds):
    return signed(at=NOW + timedelta(seconds=seconds))


def targets(*texts):
    return {f"target {text!r}": replace(signed(), target=text) for text in texts}


NOT_COVERED = {
    **{f"method {name}": replace(signed(), method=name) for name in ("post", "pOST", "Post")},
    **{
        f"authorization {text!r}": with_header(signed(), "Authorization", text)
        for text in ("", "x", "Basic YTpi", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=a/b/c")
    },
    **{f"two headers {name}": twice(name) for name in ("Authorization", "Host", "X-Amz-Date", "Content-Type")},
    **{
        f"unsigned {name}": with_header(signed(), name, "slipped in")
        for name in ("X-Amz-Target", "X-Amz-Security-Token", "x-amz-anything")
    },
    **targets("//v1/submitjob", "/v1//submitjob", "/v1/./submitjob", "/v1/tags/x/../../submitjob"),
    **targets("/v1/sub\tmitjob", "/v1/é"),
}


@pytest.mark.fault("SE03")
@pytest.mark.parametrize("case", NOT_COVERED)
def test_a_request_that_the_signature_does_not_cover_is_incomplete(verifier, case):
    assert refusal(verifier, NOT_COVERED[case]) == INCOMPLETE


UNSIGNED = ["UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "0" * 64]
NOT_VALID = {
    **{f"{number} s of clock skew": late(number) for number in (-301, 301, -86400)},
    **{f"for the service {name}": signed(service=name) for name in ("s3", "sts", "batchx")},
    "another date in the credential": with_scope_of_another_day(),
    **{f"hash of the body {digest}": signed(headers={"X-Amz-Content-Sha256": digest}) for digest in UNSIGNED},
}


@pytest.mark.fault("SE04", "SE05")
@pytest.mark.parametrize("case", NOT_VALID)
def test_a_signature_for_another_time_service_or_body_is_not_valid(verifier, case):
    assert refusal(verifier, NOT_VALID[case]) == DENIED


MALFORMED = {
    **targets("http://evil.example/v1/submitjob", "*", "/v1/submitjob#x", "/\udcff"),
    **{
        f"date {text!r}": with_header(signed(), "X-Amz-Date", text)
        for text in ("yesterday", "20261121T120000", "20261121T126000Z", "20261121T120000Z ")
    },
}


@pytest.mark.fault("SE03", "SE04")
@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_target_or_date_is_refused(verifier, case):
    assert refusal(verifier, MALFORMED[case])[0] == 403


VALID = {
    **{f"{number} s of clock skew": late(number) for number in (-299, 0, 299)},
    **{
        f"{service} in {region}": signed(service=service, region=region)
        for service in ("batch", "logs")
        for region in ("us-east-1", "eu-central-1", "nowhere-9")
    },
    "no Content-Type": signed(headers={"Content-Type": None}),
    "unsigned Content-Type": with_header(signed(headers={"Content-Type": None}), "Content-Type", "application/json"),
}


@pytest.mark.fault("SE04")
@pytest.mark.parametrize("case", VALID)
def test_a_clock_skew_of_up_to_five_minutes_any_region_and_an_unsigned_content_type_are_accepted(verifier, case):
    assert verifier.verify(VALID[case]) == KEY.id


STRANGER = AccessKey(id="BQIASTRANGERSTRANGE2", secret="who knows", user="eve", created_at=NOW)
FORGER = AccessKey(id=KEY.id, secret="not the secret", user="eve", created_at=NOW)


@pytest.mark.fault("SE06")
def test_an_unknown_key_and_a_wrong_secret_get_the_same_error(verifier):
    authorization = [str(error(verifier, key)) for key in (STRANGER, FORGER)]

    assert authorization[0] == authorization[1]


@pytest.mark.fault("SE06")
def test_an_unknown_key_takes_as_long_as_a_wrong_secret(verifier):
    """Interleaved, so that what else the machine does falls on both."""
    forgeries = [signed(key=STRANGER), signed(key=FORGER)] * examples(2000)

    times = [seconds_of(verifier, sent) for sent in forgeries]

    assert 0.8 < statistics.median(times[0::2]) / statistics.median(times[1::2]) < 1.25


def seconds_of(verifier, sent):
    began = time.perf_counter()
    refusal(verifier, sent)
    return time.perf_counter() - began


def error(verifier, key):
    with pytest.raises(HttpRefusal) as why:
        verifier.verify(signed(key=key))
    return why.value


@pytest.mark.fault("SE15")
def test_requests_above_the_rate_limit_are_refused_for_one_user_only():
    seconds = [0.0]
    throttle = Throttle(rate=100, now=lambda: NOW + timedelta(seconds=seconds[0]))

    refusals = [rate_error(throttle, "greedy") for _ in range(1000)]

    assert refusals == [None] * 200 + ["Rate exceeded"] * 800
    assert rate_error(throttle, "modest") is None
    seconds[0] = 1.0
    assert [rate_error(throttle, "greedy") for _ in range(1000)].count(None) == 100


def rate_error(throttle, user):
    try:
        throttle.take_token(user)
    except Throttled as why:
        return str(why)
