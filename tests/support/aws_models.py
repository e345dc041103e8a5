"""The models of AWS's answers in the wheel, made from botocore's. `python -m tests.support.aws_models` writes them."""

import json

from botocore.loaders import Loader

from batchq.api.operations.operation_table import OPERATIONS
from batchq.api.operations.schemas import MODELS, AwsResponse
from tests.support.described import whole_app

KEPT = "type", "enum", "required"


def answers():
    """The answers of all operations that are described by AWS's models."""
    operations = (operation for several in whole_app()[OPERATIONS].values() for operation in several)
    return {operation.answer for operation in operations if isinstance(operation.answer, AwsResponse)}


def cut_models():
    """For each service the outputs of these answers and all shapes in them, without texts and constraints."""
    of_service = {}
    for answer in answers():
        of_service.setdefault(answer.service, set()).add(answer.operation)
    return {service: cut(service, names) for service, names in of_service.items()}


def cut(service, names):
    model = Loader().load_service_model(service, "service-2")
    outputs = {name: model["operations"][name].get("output") for name in sorted(names)}
    waiting, shapes = [output["shape"] for output in outputs.values() if output], {}
    while waiting:
        name = waiting.pop()
        if name not in shapes:
            shapes[name] = shape_of(model["shapes"][name])
            members = (shapes[name].get(other_name) for other_name in ("member", "value"))
            waiting += [member["shape"] for member in (*members, *shapes[name].get("members", {}).values()) if member]
    operations = {name: {"output": {"shape": member["shape"]}} if member else {} for name, member in outputs.items()}
    return {"operations": operations, "shapes": dict(sorted(shapes.items()))}


def shape_of(shape):
    kept = {name: shape[name] for name in KEPT if name in shape}
    kept |= {name: {"shape": shape[name]["shape"]} for name in ("member", "value") if name in shape}
    if "members" in shape:
        kept["members"] = {name: {"shape": member["shape"]} for name, member in shape["members"].items()}
    return kept


def text_of(model):
    return json.dumps(model, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    for service, model in cut_models().items():
        (MODELS / f"{service}.json").write_text(text_of(model))
