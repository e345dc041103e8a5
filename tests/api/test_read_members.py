"""What the command line reads of AWS Batch's responses are members of AWS's service model."""

from functools import cache

import pytest
from botocore.session import get_session
from msgspec.inspect import DictType, FloatType, IntType, StrType, StructType, VarTupleType, type_info

from batchq.ports.responses import batch

#: AWS's shape of each response.
SHAPES = {
    batch.SubmittedJob: "SubmitJobResponse",
    batch.RegisteredDefinition: "RegisterJobDefinitionResponse",
    batch.DescribeJobsResponse: "DescribeJobsResponse",
    batch.DescribeJobQueuesResponse: "DescribeJobQueuesResponse",
    batch.DescribeComputeEnvironmentsResponse: "DescribeComputeEnvironmentsResponse",
    batch.DescribeJobDefinitionsResponse: "DescribeJobDefinitionsResponse",
    batch.ListConsumableResourcesResponse: "ListConsumableResourcesResponse",
}
SCALARS = {StrType: {"string"}, IntType: {"integer", "long"}, FloatType: {"double", "float"}}


@cache
def model():
    return get_session().get_service_model("batch")


def differences(kind, shape, path):
    """Members that AWS's shape does not have, or has with another type."""
    kinds = [member_type for member_type in getattr(kind, "types", (kind,)) if type(member_type).__name__ != "NoneType"]
    (kind,) = kinds
    if isinstance(kind, StructType):
        for field in kind.fields:
            name = field.encode_name
            if name == "batchq":
                continue
            if name not in shape.members:
                yield f"{path}.{name}"
            else:
                yield from differences(field.type, shape.members[name], f"{path}.{name}")
    elif isinstance(kind, VarTupleType):
        yield from differences(kind.item_type, shape.member, f"{path}[]")
    elif isinstance(kind, DictType):
        yield from differences(kind.value_type, shape.value, f"{path}.*")
    elif type(kind) in SCALARS and shape.type_name not in SCALARS[type(kind)]:
        yield f"{path} is {shape.type_name}"


@pytest.mark.parametrize(("kind", "shape"), SHAPES.items(), ids=lambda value: getattr(value, "__name__", value))
def test_each_member_that_a_command_reads_is_one_of_aws(kind, shape):
    assert list(differences(type_info(kind), model().shape_for(shape), shape)) == []


def test_each_response_is_compared_with_aws():
    structs = {var for var in vars(batch).values() if isinstance(var, type) and var.__module__ == batch.__name__}
    roots = {struct for struct in structs if struct.__name__.endswith("Response") or struct in SHAPES}
    assert roots == set(SHAPES)
