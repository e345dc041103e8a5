"""The table of scenarios that do not run on Kubernetes names existing tests, each with a reason of one sentence."""

import ast

import pytest

from tests.house.rooms import ROOT, tree
from tests.kubernetes.exclusions import EXCLUDED

NAMES = sorted({(name, reason) for table in EXCLUDED.values() for name, reason in table.items()})


@pytest.mark.parametrize(("name", "reason"), NAMES, ids=[name for name, _ in NAMES])
def test_each_exclusion_names_a_scenario_of_each_world_and_has_a_reason(name, reason):
    file, _, rest = name.partition("::")
    test, _, part = rest.partition("[")
    source = tree(ROOT / "tests" / "scenarios" / f"{file}.py")
    functions = {node.name: node for node in source.body if isinstance(node, ast.AsyncFunctionDef)}

    assert not test or "world" in {argument.arg for argument in functions[test].args.args}
    assert not part or part.removesuffix("]") in ast.unparse(source)
    assert reason.endswith(".")
    assert reason.count(". ") == 0
