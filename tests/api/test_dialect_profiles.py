"""Each dialect has its own shape of errors, and its own credentials, also before a handler is called."""

import json
from datetime import timedelta
from http import HTTPStatus

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace
from yarl import URL

from batchq.api.auth.authentication import Throttle, open_gate
from batchq.api.http.credentials import CredentialVerifier, Scheme, SignedRequest
from batchq.api.http.http import BODY_LIMIT, FailureKind, HttpRefusal, read_body
from batchq.api.operations.operation_table import OperationTable, dialect_of
from batchq.api.operations.operations import Operation, Public
from batchq.api.serving import app as api
from batchq.api.training.modelarts import wire as modelarts
from batchq.api.training.rest import context as training
from batchq.api.training.sagemaker import wire as sagemaker
from batchq.domain.access.accounts import ROOT, Directory, User, UserName
from batchq.domain.enums import Role
from batchq.errors import Forbidden, Invalid, NotFound, StoreFailed, Throttled
from batchq.system.clock import wall_time
from tests.api.sdk_signed import sdk_signed
from tests.api.signed import KEY as SIGNED_KEY
from tests.api.signed import signed
from tests.support.builders import ADMIN, NOON
from tests.support.gates import key_gate
from tests.support.server import serving
from tests.support.stubs import request_metrics

KEY = replace(SIGNED_KEY, secret="token_of-forty.letters")
ADA = UserName(KEY.user)
PEOPLE = Directory(users={ADA: User(name=ADA, account=ROOT, role=Role.ADMIN)})
MODELARTS, TRAINING, AWS = "/v2/project/training-jobs", "/v2/training/jobs", "/v1/things"
TOKEN = f"{KEY.id}.{KEY.secret}"
RAISED = {
    "refused": modelarts.ModelArtsRefusal(modelarts.NOT_TERMINABLE),
    "conflict": training.TrainingRefusal(
        HTTPStatus.CONFLICT, "STATE_CONFLICT", "It is over.", details={"current_state": "failed"}
    ),
    "invalid": Invalid("no"),
    "forbidden": Forbidden("no"),
    "missing": NotFound("no such job"),
    "busy": Throttled("too many"),
    "in_use": sagemaker.sagemaker_refusal("ResourceInUse", "It exists."),
    "broken": RuntimeError("the secret plan"),
    "unavailable": StoreFailed("no space left on device"),
}


async def handle(_, request):
    """Raise the error that the query names."""
    await read_body(request)
    if "error" in request.query:
        raise RAISED[request.query["error"]]
    return web.json_response({})


def operation(method, path, *, target=""):
    name = f"{method} {path}"
    return Operation(name=name, method=method, path=path, target=target, access=Public.ANYONE, handle=handle)


def dialects():
    profiles = {AWS: None, MODELARTS: lambda _: modelarts.PROFILE, TRAINING: lambda _: training.profile(lambda: NOON)}
    for path, profile in profiles.items():
        yield dialect_of(OperationTable([operation("POST", path), operation("GET", path)]), profile=profile)(None)
    target = operation("POST", "/", target=f"{sagemaker.TARGET_PREFIX}CreateTrainingJob")
    yield dialect_of(OperationTable([target]), profile=lambda _: sagemaker.PROFILE)(None)


def an_app(gate):
    return api.build(requests=request_metrics(), dialects=dialects(), health=dict, hosts=(), gate=gate)


@pytest.fixture
async def send():
    """Sends a request to a server without authentication. Returns status, headers and the parsed response."""
    async with serving(an_app(open_gate(ADMIN.user, now=lambda: NOON))) as url, aiohttp.ClientSession() as session:
        yield sender(session, url)


def sender(session, url):
    async def send(method, target, *, headers=(), body=None, json_body=True):
        sent = ({"Content-Type": "application/json"} if json_body else {}) | dict(headers)
        skipped = {"Content-Type", "User-Agent", "Accept", "Accept-Encoding"} - sent.keys()
        place = URL(url + target, encoded=True)
        async with session.request(method, place, data=body, headers=sent, skip_auto_headers=skipped) as answer:
            return answer.status, answer.headers, json.loads(await answer.read() or b"null")

    return send


FAILURES = {
    "an unknown path": ("GET", "{}/no/such", {}, (400, "ModelArts.2858"), (404, "RESOURCE_NOT_FOUND")),
    "another method": ("PUT", "{}", {}, (405, "ModelArts.2803"), (405, "METHOD_NOT_ALLOWED")),
    "another host": ("GET", "{}", {"Host": "evil.example"}, (403, "ModelArts.0108"), (403, "FORBIDDEN")),
    "another origin": ("GET", "{}", {"Origin": "http://evil.example"}, (403, "ModelArts.0108"), (403, "FORBIDDEN")),
    "a form": ("POST", "{}", {"Content-Type": "text/plain"}, (415, "ModelArts.2787"), (415, "VALIDATION_ERROR")),
    "an encoding": ("POST", "{}", {"Content-Encoding": "br"}, (415, "ModelArts.2787"), (415, "VALIDATION_ERROR")),
    "an invalid value": ("GET", "{}?error=invalid", {}, (400, "ModelArts.2788"), (400, "VALIDATION_ERROR")),
    "no permission": ("GET", "{}?error=forbidden", {}, (403, "ModelArts.0108"), (403, "FORBIDDEN")),
    "something missing": ("GET", "{}?error=missing", {}, (400, "ModelArts.2788"), (404, "RESOURCE_NOT_FOUND")),
    "a broken handler": ("GET", "{}?error=broken", {}, (500, "ModelArts.0010"), (500, "INTERNAL_ERROR")),
    "a full disk": ("GET", "{}?error=unavailable", {}, (503, "ModelArts.0010"), (503, "SERVICE_UNAVAILABLE")),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_errors_have_the_shape_of_the_paths_dialect(send, case):
    method, path, headers, of_modelarts, of_training = FAILURES[case]

    status, answer_headers, answer = await send(method, path.format(MODELARTS), headers=headers)
    assert (status, answer["error_code"]) == of_modelarts
    assert answer.keys() == {"error_code", "error_msg"}
    assert len(answer_headers["X-Request-Id"]) == 36
    assert "x-amzn-RequestId" not in answer_headers

    status, answer_headers, answer = await send(method, path.format(TRAINING), headers=headers)
    assert (status, answer["error"]) == of_training
    assert answer.keys() == {"error", "message", "code", "details", "request_id", "timestamp"}
    assert (answer["code"], answer["request_id"]) == (status, answer_headers["X-Request-Id"])
    assert answer["timestamp"] == "2026-11-21T12:00:00.000Z"
    assert "secret plan" not in answer["message"]

    _, answer_headers, answer = await send(method, path.format(AWS), headers=headers)
    assert answer.keys() == {"__type", "message"}
    assert answer_headers["x-amzn-ErrorType"] == answer["__type"]
    assert len(answer_headers["x-amzn-RequestId"]) == 36


SAGEMAKER = {
    "invalid": (400, "ValidationException"),
    "forbidden": (400, "AccessDeniedException"),
    "missing": (400, "ResourceNotFound"),
    "busy": (400, "ThrottlingException"),
    "unavailable": (503, "ServiceUnavailable"),
    "broken": (500, "InternalFailure"),
    "in_use": (400, "ResourceInUse"),
}


@pytest.mark.parametrize("case", SAGEMAKER)
async def test_errors_of_sagemaker_have_its_names(send, case):
    headers = {"X-Amz-Target": "SageMaker.CreateTrainingJob"}

    status, answer_headers, answer = await send("POST", f"/?error={case}", headers=headers, body=b"{}")

    assert (status, answer["__type"]) == SAGEMAKER[case]
    assert answer_headers["x-amzn-ErrorType"] == answer["__type"]
    assert len(answer_headers["x-amzn-RequestId"]) == 36
    assert "secret plan" not in answer["message"]


async def test_another_target_keeps_the_errors_of_its_dialect(send):
    status, _, answer = await send("POST", "/", headers={"X-Amz-Target": "Sage.Create"}, body=b"{}")
    assert (status, answer["__type"]) == (400, "UnknownOperationException")

    headers = {"X-Amz-Target": "SageMaker.CreateTrainingJob"}
    status, _, answer = await send("GET", f"{AWS}?error=broken", headers=headers)
    assert (status, answer["__type"]) == (500, "ServerException")


async def test_a_dialect_raises_errors_of_its_own(send):
    status, _, refused = await send("GET", f"{MODELARTS}?error=refused")
    assert (status, refused) == (409, {"error_code": "ModelArts.2796", "error_msg": "The job cannot be terminated."})

    status, _, conflict = await send("GET", f"{TRAINING}?error=conflict")
    assert (status, conflict["error"], conflict["details"]) == (409, "STATE_CONFLICT", {"current_state": "failed"})


async def test_a_body_that_is_too_large_has_the_shape_of_the_dialect(send):
    body = b" " * (BODY_LIMIT + 1)

    answers = [await send("POST", path, body=body) for path in (MODELARTS, TRAINING)]

    assert [status for status, _, _ in answers] == [413, 413]
    assert (answers[0][2]["error_code"], answers[1][2]["error"]) == ("APIGW.0201", "VALIDATION_ERROR")


async def test_only_training_accepts_a_post_without_a_body_and_a_content_type(send):
    statuses = [(await send("POST", path, json_body=False))[0] for path in (TRAINING, MODELARTS, AWS)]
    with_body, _, _ = await send("POST", TRAINING, json_body=False, body=b"{}")

    assert (statuses, with_body) == ([200, 415, 415], 415)


@pytest.fixture
async def gated():
    """A server that requires credentials, with a rate of a million requests a second."""
    async with serving(an_app(credentials_required())) as url, aiohttp.ClientSession() as session:
        yield sender(session, url)


def credentials_required(rate=1_000_000):
    return key_gate({KEY.id: KEY}, directory=lambda: PEOPLE, throttle=Throttle(rate=rate, now=lambda: NOON))


def with_token(token=TOKEN, scheme="Bearer"):
    return {"Authorization": f"{scheme} {token}"}


def by_the_sdk(path, *, at=None):
    return dict(sdk_signed(method="GET", path=path, body=b"", at=at or wall_time(), key=KEY).headers)


def by_sigv4(path):
    return dict(signed(method="GET", target=path, body=b"", at=wall_time(), key=KEY).headers)


CREDENTIALS = {
    "SigV4": (by_sigv4, {AWS, TRAINING}),
    "SDK-HMAC": (by_the_sdk, {MODELARTS}),
    "Bearer": (lambda _: with_token(), {MODELARTS, TRAINING}),
    "bearer in lower case": (lambda _: with_token(scheme="bearer"), {MODELARTS, TRAINING}),
    "X-Auth-Token": (lambda _: {"X-Auth-Token": TOKEN}, {MODELARTS}),
    "none": (lambda _: {}, set()),
}


@pytest.mark.fault("SE49")
@pytest.mark.parametrize("kind", CREDENTIALS)
async def test_each_dialect_accepts_its_own_credentials_only(gated, kind):
    make, accepted = CREDENTIALS[kind]

    statuses = {path: (await gated("GET", path, headers=make(path)))[0] for path in (AWS, MODELARTS, TRAINING)}

    refused = {AWS: 403, MODELARTS: 401, TRAINING: 401}
    assert statuses == refused | dict.fromkeys(accepted, 200)


BAD = {
    "an unknown key": f"BQIASTRANGERSTRANGE2.{KEY.secret}",
    "a wrong secret": f"{KEY.id}.wrong",
    "the beginning of the secret": TOKEN[:-1],
    "more than the secret": f"{TOKEN}x",
    "no secret": KEY.id,
    "an empty secret": f"{KEY.id}.",
    "nothing": "",
    "two tokens": f"{TOKEN}, {TOKEN}",
    "a long key": "a" * 4000,
    "a long secret": f"{KEY.id}.{'a' * 4000}",
}


@pytest.mark.fault("SE49")
@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("path", [MODELARTS, TRAINING])
async def test_a_wrong_token_is_refused_in_the_shape_of_the_dialect(gated, path, case):
    status, _, answer = await gated("GET", path, headers=with_token(BAD[case]))

    assert (status, answer.get("error_code") or answer["error"]) in {(401, "APIGW.0301"), (401, "UNAUTHORIZED")}
    assert KEY.secret not in str(answer)


@pytest.mark.fault("SE49")
async def test_an_unknown_key_and_a_wrong_secret_get_one_answer_and_no_credential_another(gated):
    cases = [BAD["an unknown key"], BAD["a wrong secret"]]

    answers = [(await gated("GET", MODELARTS, headers=with_token(case)))[2] for case in cases]
    missing = [(await gated("GET", path))[2] for path in (MODELARTS, TRAINING)]

    assert answers[0] == answers[1]
    assert (missing[0]["error_code"], missing[1]["error"]) == ("ModelArts.0205", "UNAUTHORIZED")


@pytest.mark.fault("SE49")
@pytest.mark.parametrize(
    ("path", "first", "expected"),
    [
        (MODELARTS, with_token, 401),
        (TRAINING, with_token, 401),
        (AWS, lambda: by_sigv4(AWS), 403),
        (TRAINING, lambda: by_sigv4(TRAINING), 401),
        ("/", lambda: by_sigv4("/") | {"X-Amz-Target": "SageMaker.ListTrainingJobs"}, 403),
    ],
    ids=["ModelArts", "training", "AWS", "training, signed", "SageMaker"],
)
async def test_two_kinds_of_credentials_in_one_request_are_refused_in_every_dialect(gated, path, first, expected):
    status, _, answer = await gated("GET", path, headers=first() | {"X-Auth-Token": TOKEN})

    assert status == expected
    assert "both an Authorization and an X-Auth-Token header" in str(answer)


@pytest.mark.fault("SE48")
async def test_the_sdks_signature_is_verified_over_http(gated):
    statuses = [
        (await gated("GET", MODELARTS, headers=by_the_sdk(MODELARTS, at=wall_time() - timedelta(seconds=late))))[0]
        for late in (0, 290, 310)
    ]

    assert statuses == [200, 200, 401]


@pytest.mark.fault("SE49")
async def test_throttled_requests_have_the_shape_of_the_dialect():
    async with serving(an_app(credentials_required(rate=1))) as url, aiohttp.ClientSession() as session:
        send = sender(session, url)
        taken = [(await send("GET", TRAINING, headers=with_token()))[0] for _ in range(2)]
        status, headers, of_training = await send("GET", TRAINING, headers=with_token())
        _, _, of_modelarts = await send("GET", MODELARTS, headers=with_token())

    assert (taken, status, headers["Retry-After"]) == ([200, 200], 429, "1")
    assert (of_training["error"], of_modelarts["error_code"]) == ("RATE_LIMIT_EXCEEDED", "ModelArts.2799")


@pytest.mark.fault("SE49")
def test_a_token_over_an_open_network_is_refused_before_it_is_compared():
    verifier = CredentialVerifier(find={KEY.id: KEY}.get, now=wall_time)
    sent = SignedRequest(method="GET", target=TRAINING, headers=tuple(with_token().items()), body=b"")
    schemes = frozenset({Scheme.BEARER})

    assert verifier.verify(sent, schemes=schemes, confidential=True) == KEY.id
    with pytest.raises(HttpRefusal, match="over TLS") as why:
        verifier.verify(sent, schemes=schemes, confidential=False)
    assert why.value.kind is FailureKind.FORBIDDEN
