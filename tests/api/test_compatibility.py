"""docs/compatibility.md names every operation and every member of AWS's model, and no other."""

import re

import pytest

from batchq.api.batch.routes import UNSUPPORTED
from tests.api.model import OPERATIONS, SERVICE
from tests.house.rooms import ROOT

PAGE = (ROOT / "docs" / "compatibility.md").read_text()


def rows(section):
    """The first two cells of each row below a heading."""
    text = re.search(rf"^## {re.escape(section)}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]
    return dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", text, re.MULTILINE))


def inner(shape):
    return shape.member if shape.type_name == "list" else shape


def members(name, *, depth=2):
    """The members of a shape of the model, and with a dot those of its members."""
    for member, shape in SERVICE.shape_for(name).members.items():
        yield member
        if depth > 1 and inner(shape).type_name == "structure" and not member.startswith("eks"):
            yield from (f"{member}.{other_member}" for other_member in inner(shape).members)


SECTIONS = {
    "RegisterJobDefinition": set(members("RegisterJobDefinitionRequest", depth=1)),
    "SubmitJob": set(members("SubmitJobRequest", depth=1)),
    "containerProperties": set(members("ContainerProperties")),
    "ecsProperties": set(members("EcsProperties")),
    "ecsProperties.taskProperties.containers": set(members("TaskContainerProperties", depth=1)),
    "nodeProperties": set(members("NodeProperties")),
    "eksProperties.podProperties": set(members("EksPodProperties", depth=1)),
    "eksProperties.podProperties.containers": set(members("EksContainer")),
}


def test_every_operation_is_listed():
    assert rows("Operations").keys() == OPERATIONS.keys()


def test_refused_operations_are_marked():
    assert {name for name, support in rows("Operations").items() if support.startswith("refused:")} == set(UNSUPPORTED)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_member_is_listed(section):
    assert rows(section).keys() == SECTIONS[section]
