"""The shapes compared with botocore's model of the service."""

import types
from typing import Annotated, Literal, Union, get_args, get_origin

import pytest

from batchq.api.batch.eks import EksProperties, EksPropertiesOverride
from batchq.api.batch.validation import WireModel
from tests.api.model import OPERATIONS, SERVED, SERVICE

SHAPES = {
    name: operation.body or operation.query for name, operation in SERVED.items() if operation.body or operation.query
}
IN_THE_PATH = {"resourceArn"}

# Members that are not compared: they are refused whatever they contain.
REFUSED_WHOLE = {
    "UpdateComputeEnvironment.eksConfiguration": "an environment stays on its cluster",
    "accessEntry": "access to Amazon EKS",
    "eksProperties": "refused in nodeProperties; compared by its own name",
    "eksPropertiesOverride": "refused in nodeOverrides; compared by its own name",
    "initContainers": "one container a pod",
    "secret": "objects of Kubernetes",
    "persistentVolumeClaim": "objects of Kubernetes",
    "capabilities": "rights of the engine's default",
    "seccompProfile": "rights of the engine's default",
    "efsVolumeConfiguration": "file systems of AWS",
    "s3filesVolumeConfiguration": "file systems of AWS",
    "serviceEnvironmentOrder": "SageMaker",
}
# Required by the model, and not by us: AWS has texts of its own for these, or nothing depends on them.
NOT_REQUIRED = {
    "EksConfiguration.eksClusterArn": "an empty eksConfiguration is accepted as none",
    "EksConfiguration.kubernetesNamespace": "an empty eksConfiguration is accepted as none",
    "ManagedInstancesProvider.infrastructureRoleArn": "echoed only",
    "ManagedInstancesProvider.instanceLaunchTemplate": "echoed only",
    "InstanceLaunchTemplate.ec2InstanceProfileArn": "echoed only",
    "InstanceLaunchTemplate.networkConfiguration": "echoed only",
    "InstancesNetwork.subnets": "echoed only",
    "InstancesNetwork.securityGroups": "echoed only",
}


# Enumerations that the shapes accept as any text: AWS has a text for unknown values, or accepts them in any case.
CHECKED_LATER = {"JobDependency.type", "EvaluateOnExit.action", "ListJobs.jobStatus"}


def shape_in(annotation):
    """The wire shape that a member's type holds, if any."""
    if isinstance(annotation, type) and issubclass(annotation, WireModel):
        return annotation
    inner = (shape_in(arg) for arg in get_args(annotation) if get_origin(annotation) is not Literal)
    return next((value for value in inner if value is not None), None)


def structure_in(shape):
    """The structure that a member of the model holds, if any."""
    if shape.type_name == "structure":
        return shape
    inside = {"list": lambda: shape.member, "map": lambda: shape.value}.get(shape.type_name)
    return structure_in(inside()) if inside else None


def pairs(ours, theirs, seen=()):
    """Every structure of the model, with our shape of it."""
    yield ours, theirs
    for name, member in theirs.members.items():
        structure = structure_in(member)
        if (
            structure is not None
            and REFUSED_WHOLE.keys().isdisjoint({name, f"{ours.__name__}.{name}"})
            and name in ours.model_fields
            and structure.name not in seen
        ):
            inner = shape_in(ours.model_fields[name].annotation)
            assert inner is not None, f"{ours.__name__}.{name} has no shape"
            yield from pairs(inner, structure, (*seen, structure.name))


def everything():
    found = [pair for name, ours in SHAPES.items() for pair in pairs(ours, OPERATIONS[name].input_shape)]
    pods = [
        pair
        for ours in (EksProperties, EksPropertiesOverride)
        for pair in pairs(ours, SERVICE.shape_for(ours.__name__))
    ]
    return [*found, *pods]


def test_every_supported_operation_with_a_body_has_a_shape():
    assert SHAPES.keys() | {"ListTagsForResource"} == SERVED.keys()


def test_every_member_of_aws_is_in_the_shape():
    unknown = {
        f"{ours.__name__}.{name}"
        for ours, theirs in everything()
        for name in theirs.members.keys() - ours.model_fields.keys() - IN_THE_PATH
    }

    assert unknown == set()


def test_no_shape_has_an_unknown_member():
    known = {}
    for ours, theirs in everything():
        known.setdefault(ours, set()).update(theirs.members)

    made_up = {f"{ours.__name__}.{name}" for ours, names in known.items() for name in ours.model_fields.keys() - names}

    assert made_up == set()


def test_what_aws_requires_is_required():
    lax = {
        f"{ours.__name__}.{name}"
        for ours, theirs in everything()
        for name in set(theirs.required_members) - IN_THE_PATH
        if not ours.model_fields[name].is_required()
    }

    assert lax - NOT_REQUIRED.keys() == set()


def test_nothing_is_required_that_aws_does_not_require():
    required = {}
    for ours, theirs in everything():
        required.setdefault(ours, set()).update(theirs.required_members)

    strict = {
        f"{ours.__name__}.{name}"
        for ours, names in required.items()
        for name, field in ours.model_fields.items()
        if field.is_required() and name not in names
    }

    assert strict == set()


def test_optional_members_default_to_none():
    defaults = {
        f"{ours.__name__}.{name}": field.default
        for ours, _ in everything()
        for name, field in ours.model_fields.items()
        if not field.is_required() and field.default is not None
    }

    assert defaults == {}


def literals(annotation):
    """The values of a member with an enumeration."""
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    if get_origin(annotation) in {Union, types.UnionType, list, Annotated}:
        return set().union(*(literals(arg) for arg in get_args(annotation)))
    return set()


def words_in(shape):
    return set((words_in(shape.member) if shape.type_name == "list" else getattr(shape, "enum", None)) or ())


@pytest.mark.parametrize("name", SHAPES)
def test_enumerated_values_are_those_of_aws(name):
    differing = {
        f"{ours.__name__}.{member}": words ^ ours_allows
        for ours, theirs in pairs(SHAPES[name], OPERATIONS[name].input_shape)
        for member, shape in theirs.members.items()
        if member in ours.model_fields
        and (words := words_in(shape)) != (ours_allows := literals(ours.model_fields[member].annotation))
        and f"{ours.__name__}.{member}" not in CHECKED_LATER
    }

    assert differing == {}
