"""Our shapes are AWS's: held against botocore's model of the service."""

import pytest

from batchq.api.logs import wire
from batchq.logs.service import GROUP
from tests.api.conftest import BOTOCORE

OPERATIONS = ["GetLogEvents", "FilterLogEvents", "DescribeLogStreams", "DescribeLogGroups"]
MODEL = BOTOCORE.get_service_model("logs")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_member_that_may_be_asked_is_known(operation):
    ours, awss = getattr(wire, operation).model_fields, MODEL.operation_model(operation).input_shape

    assert ours.keys() == awss.members.keys()
    assert {name for name, member in ours.items() if member.is_required()} == set(awss.required_members)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_every_member_that_is_told_is_one_of_awss(raw, ground, operation):
    stream = await ground.runs("a", "b")
    await ground.logs.keep(stream.tag)
    asked = {} if operation == "DescribeLogGroups" else {"logGroupName": GROUP, "limit": 1}

    _, _, answer = await raw.post(operation, {**asked, "logStreamName": stream.name})

    assert strangers(answer, MODEL.operation_model(operation).output_shape) == []


def strangers(told, shape):
    """Members that AWS's shape has not."""
    match shape.type_name:
        case "structure":
            unknown = sorted(told.keys() - shape.members.keys())
            known = [(told[name], shape.members[name]) for name in told.keys() & shape.members.keys()]
            return unknown + [it for value, inside in known for it in strangers(value, inside)]
        case "list":
            return [it for member in told for it in strangers(member, shape.member)]
    return []
