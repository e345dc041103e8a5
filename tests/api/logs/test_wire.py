"""The shapes compared with botocore's model of the service."""

import pytest

from batchq.api.logs import translate
from batchq.logs.service import GROUP
from tests.api.conftest import BOTOCORE

OPERATIONS = ["GetLogEvents", "FilterLogEvents", "DescribeLogStreams", "DescribeLogGroups"]
MODEL = BOTOCORE.get_service_model("logs")


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
            return unknown + [it for value, inside in known for it in unknown_members(value, inside)]
        case "list":
            return [it for member in response for it in unknown_members(member, shape.member)]
    return []
