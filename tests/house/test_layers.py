"""Every module is on a layer, since a module on none could import anything; and no modules import each other."""

import re
import tomllib

from tests.house.measure import first_cycle
from tests.house.room_graph import edges
from tests.house.rooms import ROOT, imports, module, sources

#: A change that needs another room or another arrow between rooms raises the limit, and its commit says why.
MAX_ROOMS, MAX_ARROWS = 18, 87
COMPOSITION_ROOT = {"batchq.server", "batchq.api", "batchq.compute"}


def contract(name):
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(each for each in contracts if each["id"] == name)


def layered_modules():
    return {room for layer in contract("layers")["layers"] for room in re.findall(r"[\w.]+", layer)}


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


def test_the_contract_of_the_composition_root_names_every_other_room():
    rooms = {".".join(module(source).split(".")[:2]) for source in sources()} - {"batchq"}

    assert set(contract("inside")["source_modules"]) == rooms - COMPOSITION_ROOT


def test_rooms_and_arrows_between_them_do_not_increase():
    """`compute` counts as one room with the runtimes in it."""
    pairs = {(start.split(".")[0], end.split(".")[0]) for start, end in edges()}
    arrows = {(start, end) for start, end in pairs if start != end}

    assert len({room for arrow in arrows for room in arrow}) <= MAX_ROOMS
    assert len(arrows) <= MAX_ARROWS
