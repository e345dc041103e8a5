"""The models of AWS's answers in the wheel, made from botocore's. `python -m tests.support.aws_models` writes them."""

import json

from botocore.loaders import Loader

from batchq.api.operations.operation_table import OPERATIONS
from batchq.api.operations.schemas import MODELS, AwsResponse
from tests.support.described import whole_app

KEPT = "type", "enum", "required"


def answers():
    """The answers of all operations that are described by AWS's models."""
    operations = (it for several in whole_app()[OPERATIONS].values() for it in several)
    return {it.answer for it in operations if isinstance(it.answer, AwsResponse)}


def cut_models():
    """For each service the outputs of these answers and all shapes in them, without texts and constraints."""
    of_service = {}
    for answer in answers():
        of_service.setdefault(answer.service, set()).add(answer.operation)
    return {service: cut(service, names) for service, names in of_service.items()}


def cut(service, names):
    model = Loader().load_service_model(service, "service-2")
    outputs = {name: model["operations"][name].get("output") for name in sorted(names)}
    waiting, shapes = [it["shape"] for it in outputs.values() if it], {}
    while waiting:
        name = waiting.pop()
        if name not in shapes:
            shapes[name] = shape_of(model["shapes"][name])
            members = (shapes[name].get(it) for it in ("member", "value"))
            waiting += [it["shape"] for it in (*members, *shapes[name].get("members", {}).values()) if it]
    operations = {name: {"output": {"shape": it["shape"]}} if it else {} for name, it in outputs.items()}
    return {"operations": operations, "shapes": dict(sorted(shapes.items()))}


def shape_of(shape):
    kept = {name: shape[name] for name in KEPT if name in shape}
    kept |= {name: {"shape": shape[name]["shape"]} for name in ("member", "value") if name in shape}
    if "members" in shape:
        kept["members"] = {name: {"shape": it["shape"]} for name, it in shape["members"].items()}
    return kept


def text_of(model):
    return json.dumps(model, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    for service, model in cut_models().items():
        (MODELS / f"{service}.json").write_text(text_of(model))
