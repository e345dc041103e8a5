"""Every module is on a layer, since a module on none could import anything; and no modules import each other."""

import re
import tomllib

from tests.house.measure import first_cycle
from tests.house.rooms import ROOT, imports, module, sources


def layered_modules():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    return {room for layer in layers for room in re.findall(r"[\w.]+", layer)}


def is_under(text, layers):
    return any(text == layer or text.startswith(f"{layer}.") for layer in layers)


def test_every_module_stands_on_a_layer():
    layers = layered_modules()

    homeless = [
        module(source) for source in sources() if module(source) != "batchq" and not is_under(module(source), layers)
    ]

    assert homeless == []


def test_no_modules_import_each_other():
    assert first_cycle(imports()) == ()
