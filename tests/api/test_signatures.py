"""Signature verification. botocore, which signs the requests, is the reference."""

import statistics
import time
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.accounts.files import AccessKey
from batchq.api.authentication import Throttle
from batchq.api.credentials import SigV4Verifier
from batchq.api.http import HttpRefusal
from batchq.errors import Throttled
from tests.api.signed import KEY, NOW, header, one_byte_changed, random_request, signed, with_header


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


def test_five_hundred_random_requests_of_botocore_are_accepted(verifier):
    assert {verifier.verify(random_request(seed)) for seed in range(500)} == {KEY.id}


@pytest.mark.fault("SE03")
def test_a_signed_request_with_one_changed_byte_is_refused(verifier):
    error = {refusal(verifier, one_byte_changed(random_request(seed), seed)) for seed in range(2000)}

    assert error <= {DENIED, INCOMPLETE}


@pytest.mark.fault("SE03")
@pytest.mark.parametrize("method", ["post", "pOST", "Post"])
def test_a_method_in_lower_case_is_refused(verifier, method):
    assert refusal(verifier, replace(signed(), method=method)) == INCOMPLETE


@pytest.mark.fault("SE03")
@pytest.mark.parametrize(
    "authorization", ["", "x", "Basic YTpi", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=a/b/c"]
)
def test_a_malformed_authorization_is_refused(verifier, authorization):
    assert refusal(verifier, with_header(signed(), "Authorization", authorization)) == INCOMPLETE


@pytest.mark.fault("SE03")
def test_two_authorization_headers_are_refused(verifier):
    sent = signed()

    assert refusal(verifier, twice(sent, "Authorization")) == INCOMPLETE


@pytest.mark.fault("SE03")
@pytest.mark.parametrize("name", ["Host", "X-Amz-Date", "Content-Type"])
def test_a_signed_header_must_be_present_exactly_once(verifier, name):
    assert refusal(verifier, twice(signed(), name)) == INCOMPLETE


def twice(sent, name):
    return replace(sent, headers=(*sent.headers, (name, header(sent, name))))


@pytest.mark.fault("SE03")
@pytest.mark.parametrize("name", ["X-Amz-Target", "X-Amz-Security-Token", "x-amz-anything"])
def test_an_unsigned_amazon_header_is_refused(verifier, name):
    assert refusal(verifier, with_header(signed(), name, "slipped in")) == INCOMPLETE


@pytest.mark.fault("SE03")
def test_a_content_type_must_be_signed(verifier):
    sent = signed(headers={"Content-Type": None})

    assert verifier.verify(sent) == KEY.id
    assert refusal(verifier, with_header(sent, "Content-Type", "text/plain")) == INCOMPLETE


@pytest.mark.fault("SE03")
@pytest.mark.parametrize("target", ["http://evil.example/v1/submitjob", "*", "/v1/submitjob#x", "/\udcff"])
def test_a_request_target_that_is_not_a_path_is_refused(verifier, target):
    assert refusal(verifier, replace(signed(), target=target))[0] == 403


@pytest.mark.fault("SE03")
@pytest.mark.parametrize(
    "target",
    ["//v1/submitjob", "/v1//submitjob", "/v1/./submitjob", "/v1/tags/x/../../submitjob", "/v1/sub\tmitjob", "/v1/é"],
)
def test_a_path_that_is_not_normalized_is_refused(verifier, target):
    assert refusal(verifier, replace(signed(), target=target)) == INCOMPLETE


@pytest.mark.fault("SE04")
@pytest.mark.parametrize("seconds", [-299, 0, 299])
def test_a_clock_skew_of_up_to_five_minutes_is_accepted(verifier, seconds):
    assert verifier.verify(signed(at=NOW + timedelta(seconds=seconds))) == KEY.id


@pytest.mark.fault("SE04")
@pytest.mark.parametrize("seconds", [-301, 301, -86400])
def test_a_larger_clock_skew_is_refused(verifier, seconds):
    assert refusal(verifier, signed(at=NOW + timedelta(seconds=seconds))) == DENIED


@pytest.mark.fault("SE04")
@pytest.mark.parametrize("service", ["s3", "sts", "batchx"])
def test_a_signature_for_another_service_is_refused(verifier, service):
    assert refusal(verifier, signed(service=service)) == DENIED


@pytest.mark.parametrize("service", ["batch", "logs"])
@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "nowhere-9"])
def test_any_region_is_accepted(verifier, service, region):
    assert verifier.verify(signed(service=service, region=region)) == KEY.id


@pytest.mark.fault("SE04")
def test_the_date_of_the_credential_must_match_the_request(verifier):
    authorization = header(signed(), "Authorization")
    sent = with_header(signed(), "Authorization", authorization.replace("/20261121/", "/20261120/"))

    assert refusal(verifier, sent) == DENIED


@pytest.mark.fault("SE04")
@pytest.mark.parametrize("date", ["yesterday", "20261121T120000", "20261121T126000Z", "20261121T120000Z "])
def test_an_invalid_date_is_refused(verifier, date):
    assert refusal(verifier, with_header(signed(), "X-Amz-Date", date))[0] == 403


UNSIGNED = ["UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "0" * 64]


@pytest.mark.fault("SE05")
@pytest.mark.parametrize("stated", UNSIGNED)
def test_the_body_must_match_the_signed_hash(verifier, stated):
    sent = signed(headers={"X-Amz-Content-Sha256": stated})

    assert refusal(verifier, sent) == DENIED


STRANGER = AccessKey(id="BQIASTRANGERSTRANGE2", secret="who knows", user="eve", created_at=NOW)
FORGER = AccessKey(id=KEY.id, secret="not the secret", user="eve", created_at=NOW)


@pytest.mark.fault("SE06")
def test_an_unknown_key_and_a_wrong_secret_get_the_same_error(verifier):
    authorization = [str(error(verifier, key)) for key in (STRANGER, FORGER)]

    assert authorization[0] == authorization[1]


@pytest.mark.fault("SE06")
def test_an_unknown_key_takes_as_long_as_a_wrong_secret(verifier):
    """Interleaved, so that what else the machine does falls on both."""
    forgeries = [signed(key=STRANGER), signed(key=FORGER)] * 2000

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
