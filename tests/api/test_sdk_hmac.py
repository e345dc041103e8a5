"""Verification of SDK-HMAC-SHA256. Requests that the vendor's SDK has signed are the reference."""

import pytest
from msgspec.structs import replace

from batchq.api.http.credentials import SdkHmacVerifier
from batchq.api.http.http import HttpRefusal
from tests.api.sdk_signed import BY_THE_SDK, JOBS, random_sdk_request, sdk_signed
from tests.api.signed import KEY, NOW, header, one_byte_changed, with_header
from tests.support.examples import examples


@pytest.fixture
def verifier():
    return SdkHmacVerifier(find={KEY.id: KEY}.get, now=lambda: NOW)


def refusal(verifier, sent):
    with pytest.raises(HttpRefusal) as why:
        verifier.verify(sent)
    return why.value.code


DENIED, INCOMPLETE = "InvalidSignatureException", "IncompleteSignatureException"


@pytest.mark.parametrize("name", BY_THE_SDK)
def test_a_request_signed_by_the_sdk_is_accepted(verifier, name):
    assert verifier.verify(BY_THE_SDK[name]) == KEY.id


def test_random_requests_are_accepted(verifier):
    assert {verifier.verify(random_sdk_request(seed)) for seed in range(examples(500))} == {KEY.id}


@pytest.mark.fault("SE48")
def test_a_request_with_one_changed_byte_is_refused(verifier):
    refusals = {refusal(verifier, one_byte_changed(random_sdk_request(seed), seed)) for seed in range(examples(2000))}

    assert refusals <= {DENIED, INCOMPLETE}


@pytest.mark.fault("SE48")
@pytest.mark.parametrize("name", ["Host", "X-Sdk-Date", "Content-Type", "X-Project-Id", "X-Sdk-Meta"])
def test_these_headers_must_be_signed(verifier, name):
    sent = sdk_signed(headers={name: None} if name != "X-Sdk-Date" else {"X_Sdk_Date": "x"})
    authorization = header(sent, "Authorization").replace("host;", "").replace(";x-sdk-date", "")

    assert refusal(verifier, with_header(with_header(sent, name, "x"), "Authorization", authorization)) == INCOMPLETE


@pytest.mark.fault("SE48")
@pytest.mark.parametrize("end", ["/", "//", "/.", "/..", "/%2e%2E", "%2Fx", "%ff", "%2", "\udcff"])
def test_a_path_with_another_spelling_of_a_signed_one_is_refused(verifier, end):
    sent = sdk_signed(path=JOBS)

    assert refusal(verifier, replace(sent, target=JOBS + end)) in {DENIED, INCOMPLETE}


@pytest.mark.fault("SE48")
@pytest.mark.parametrize("query", ["b=2&a=1", "a=1&b=2&b=3", "a=1&b=2&", "a=1&b=%32", "a=1", "a=1&b=2#", "a=1&b= 2"])
def test_a_query_with_another_spelling_of_the_signed_one_is_refused(verifier, query):
    sent = sdk_signed(path=JOBS, query=[("a", "1"), ("b", "2")])

    assert verifier.verify(sent) == KEY.id
    assert refusal(verifier, replace(sent, target=f"{JOBS}?{query}")) in {DENIED, INCOMPLETE}


def twice(name):
    sent = sdk_signed()
    return replace(sent, headers=(*sent.headers, (name, header(sent, name))))


MALFORMED = [
    "SDK-HMAC-SHA256",
    "SDK-HMAC-SHA256 Access=a, SignedHeaders=host, Signature=x",
    "V11-HMAC-SHA256 Credential=a/b/c, SignedHeaders=host, Signature=" + "0" * 64,
    "SDK-HMAC-SHA256 Access=" + "a" * 4000,
    "SDK-HMAC-SHA256 Access=a, SignedHeaders=" + ";" * 4000,
    "SDK-HMAC-SHA256 " + " " * 4000 + "x",
]
WRONG = {
    **{
        authorization[:60]: (with_header(sdk_signed(), "Authorization", authorization), INCOMPLETE)
        for authorization in MALFORMED
    },
    **{
        f"two headers {name}": (twice(name), INCOMPLETE)
        for name in ("Host", "X-Sdk-Date", "Content-Type", "X-Project-Id", "Authorization", "User-Agent")
    },
    **{f"method {name}": (sdk_signed(method=name), INCOMPLETE) for name in ("post", "Post")},
    "a temporary key": (sdk_signed(headers={"X-Security-Token": "x"}), DENIED),
}


@pytest.mark.fault("SE48")
@pytest.mark.parametrize(("sent", "code"), WRONG.values(), ids=WRONG)
def test_a_malformed_request_is_refused(verifier, sent, code):
    assert refusal(verifier, sent) == code
