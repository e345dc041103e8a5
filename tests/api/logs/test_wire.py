"""Shapes of requests and responses, compared with botocore's model, and malformed requests, which get an error."""

from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchq.api.logs import translate
from batchq.logs.service import GROUP
from tests.api.conftest import BOTOCORE
from tests.support.examples import examples

OPERATIONS = ["GetLogEvents", "FilterLogEvents", "DescribeLogStreams", "DescribeLogGroups"]
MODEL = BOTOCORE.get_service_model("logs")
OF_A_STREAM = f'"logGroupName": "{GROUP}", "logStreamName": "x"'.encode()

# tests/api/test_bodies.py has every other malformed body: the dialects share the parser.
NOT_JSON = {
    "empty": b"",
    "a list": b"[]",
    "not UTF-8": b'{"logGroupName": "\xff\xfe"}',
    "very deep": b"[" * 100_000,
    "NaN": b'{"limit": NaN}',
}
NUMBERS = [
    *(
        (member, number)
        for member in (b"startTime", b"endTime", b"limit")
        for number in (b"-1", b"9" * 5000, b'"5"', b"5.5")
    ),
    *((b"limit", number) for number in (b"0", b"10001", b"%d" % 2**63)),
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_request_member_of_aws_is_in_the_shape(operation):
    fields, model = getattr(translate, operation).model_fields, MODEL.operation_model(operation).input_shape

    assert fields.keys() == model.members.keys()
    assert {name for name, member in fields.items() if member.is_required()} == set(model.required_members)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_every_response_member_is_one_of_aws(raw, backend, operation):
    stream = await backend.runs("a", "b")
    await backend.logs.capture(stream.tag)
    content = {} if operation == "DescribeLogGroups" else {"logGroupName": GROUP, "limit": 1}

    _, _, answer = await raw.post(operation, {**content, "logStreamName": stream.name})

    assert unknown_members(answer, MODEL.operation_model(operation).output_shape) == []


def unknown_members(response, shape):
    """Members that AWS's shape has not."""
    match shape.type_name:
        case "structure":
            unknown = sorted(response.keys() - shape.members.keys())
            known = [(response[name], shape.members[name]) for name in response.keys() & shape.members.keys()]
            return unknown + [member for answer, inside in known for member in unknown_members(answer, inside)]
        case "list":
            return [other_member for member in response for other_member in unknown_members(member, shape.member)]
    return []


@pytest.mark.fault("IN01", "IN02", "IN03")
async def test_what_is_not_json_is_refused(refused):
    for operation, body in product(OPERATIONS, NOT_JSON.values()):
        assert await refused(operation, body=body)


@pytest.mark.fault("IN04", "IN07")
async def test_an_invalid_number_is_refused(refused, backend):
    await backend.runs("a", name="x")

    for operation, (member, number) in product(["GetLogEvents", "FilterLogEvents"], NUMBERS):
        await refused(operation, body=b'{%s, "%s": %s}' % (OF_A_STREAM, member, number))


@pytest.mark.fault("IN06")
async def test_unknown_members_are_ignored_and_the_last_duplicate_counts(raw, backend):
    await backend.runs("a", "b", name="x")

    for limit, found in ((1, 1), (2, 2), (10_000, 2)):
        body = b'{%s, "limit": 5, "__proto__": {}, "limit": %d, "unmask": true}' % (OF_A_STREAM, limit)
        status, _, answer = await raw.post("GetLogEvents", body=body)
        assert (status, len(answer["events"])) == (200, found)


@pytest.mark.parametrize(
    "target",
    ["Logs_20140328.PutLogEvents", "Logs_20140328.", "Batch.GetLogEvents", "GetLogEvents", "x" * 5000, "*", None],
)
async def test_an_unknown_operation_is_named_in_the_error(raw, target):
    status, headers, answer = await raw.post("", {}, X_Amz_Target=target)

    assert (status, headers["x-amzn-ErrorType"]) == (400, "UnknownOperationException")
    assert (target or "is missing")[:200] in answer["message"]
    assert len(answer["message"]) < 300


@pytest.mark.parametrize("operation", [*OPERATIONS, "PutLogEvents"])
async def test_responses_and_errors_have_the_content_type_of_aws(raw, operation):
    _, headers, _ = await raw.post(operation, {})

    assert headers["Content-Type"].partition(";")[0] == "application/x-amz-json-1.1"
    assert headers["x-amzn-RequestId"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
members = st.sampled_from(
    sorted({name for operation in OPERATIONS for name in getattr(translate, operation).model_fields})
)
bodies = st.dictionaries(members, json_values, max_size=6).map(lambda body: {"logGroupName": GROUP, **body})


@pytest.mark.fault("IN05")
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operation=st.sampled_from(OPERATIONS), body=bodies)
async def test_no_body_causes_a_server_error(raw, operation, body):
    status, _, answer = await raw.post(operation, body)

    assert status in {200, 400}
    assert status == 200 or answer["__type"] in {"InvalidParameterException", "ResourceNotFoundException"}
