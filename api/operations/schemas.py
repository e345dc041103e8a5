"""JSON schemas for /openapi.json: of requests (pydantic), of batchq's own answers (msgspec), of AWS's (its models).

AWS's answers are described by the parts of botocore's service models in the folder `aws_models`, which are read once,
when the description is generated. botocore is not a dependency of the server: decision 0096.
Members of the other two have the `#:` comments above the fields of their shapes as descriptions.
"""

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from batchq.domain.explanation.explain import REASONS

Json = dict[str, object]
Refs = Mapping[type, JsonSchemaValue]
AwsRefs = dict["AwsResponse", Json]

#: A file for each service of AWS. `python -m tests.support.aws_models` writes them.
MODELS = Path(__file__).with_name("aws_models")
#: Their member `code` has the codes of the domain's reasons. A closed type would make clients import all reasons.
_EXPLANATIONS = {"ExplanationResponse", "JobExplanationResponse"}
_REF = "#/components/schemas/{}"
_NULL = {"type": "null"}
_COMMENT = re.compile(r" {4}#: ?(.*)")
_FIELD = re.compile(r" {4}(\w+) *:(?!:)")
_SCALARS: Mapping[str, str] = {
    "string": "string",
    "blob": "string",
    "boolean": "boolean",
    "integer": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "timestamp": "number",
}
# AWS: the model requires them, and AWS omits them.
_OPTIONAL = frozenset({("batch.JobDetail", "startedAt"), ("sagemaker.DescribeTrainingJobResponse", "ModelArtifacts")})
# AWS: the values of these enumerations may be in lower case, and are returned as they were sent.
_ANY_CASE = frozenset({("batch", "RetryAction")})
# Enumerations to which this server adds values.
_EXTENDED = frozenset({("sagemaker", "TrainingInstanceType")})


class AwsResponse(Struct, frozen=True):
    """The answer of an operation of AWS, as AWS's model of the service describes it."""

    #: The name of the service, and of the file of its model, as `batch`.
    service: str
    #: As `DescribeJobs`.
    operation: str


Additions = Mapping[tuple[str, str], type[Struct]]
"""The `batchq` members of AWS's shapes, by service and name of the shape, as `("batch", "JobDetail")`."""


class PlainSchema(GenerateJsonSchema):
    """Schemas without titles, which repeat the names, and without defaults: None means an omitted member."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - pydantic passes it
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described, shape = super().model_schema(schema), schema["cls"]
        for name, text in texts_of(shape).items():
            member = described["properties"][shape.model_fields[name].alias or name]
            member["description"] = text
        return described


def request_schemas(shapes: Iterable[type[BaseModel]]) -> tuple[Refs, Json]:
    """A reference to the schema of each shape, and the schemas by name."""
    wanted: list[tuple[type[BaseModel], JsonSchemaMode]] = [(shape, "validation") for shape in dict.fromkeys(shapes)]
    refs, schemas = models_json_schema(wanted, ref_template=_REF.format("{model}"), schema_generator=PlainSchema)
    return {shape: ref for (shape, _), ref in refs.items()}, schemas.get("$defs", {})


def answer_schemas(shapes: Iterable[type[Struct]]) -> tuple[Refs, Json]:
    """A reference to the schema of each shape, and the schemas by name.

    A member with the default None is described as one that is omitted, never null: such a Struct must set
    `omit_defaults`.
    """
    wanted: list[type] = list(dict.fromkeys(shapes))
    refs, schemas = msgspec.json.schema_components(wanted, ref_template=_REF.format("{name}"), schema_hook=_any_value)
    for name in _EXPLANATIONS & schemas.keys():
        schemas[name]["properties"]["code"]["enum"] = [reason.code for reason in REASONS]
    texts = struct_texts(wanted)
    described: Json = {name: _described(_without_nulls(value), texts.get(name, {})) for name, value in schemas.items()}
    return dict(zip(wanted, refs, strict=True)), described


def aws_schemas(answers: Iterable[AwsResponse], additions: Additions, refs: Refs) -> tuple[AwsRefs, Json]:
    """A reference to the schema of each answer, and the schemas by name. `refs` has those of the additions."""
    wanted = dict.fromkeys(answers)
    found: AwsRefs = {}
    schemas: Json = {}
    for service in sorted({answer.service for answer in wanted}):
        model = _AwsModel(service, {shape: refs[value] for (at, shape), value in additions.items() if at == service})
        found |= {answer: model.add(answer.operation) for answer in wanted if answer.service == service}
        schemas |= model.schemas
    return found, schemas


class _AwsModel:
    """The schemas of one of AWS's service models."""

    def __init__(self, service: str, additions: Mapping[str, JsonSchemaValue]) -> None:
        self._service = service
        self._model = json.loads((MODELS / f"{service}.json").read_text(encoding="utf-8"))
        self._additions = additions
        #: By name.
        self.schemas: Json = {}

    def add(self, operation: str) -> Json:
        """Add the schemas of an operation's answer and of all shapes in it. Returns a reference to the answer's.

        The answer of some operations has no members.
        """
        output = self._model["operations"][operation].get("output")
        return {"type": "object", "maxProperties": 0} if output is None else self._schema(output["shape"])

    def _schema(self, name: str) -> Json:
        """The schema of a scalar, list or map; a reference to that of a structure."""
        shape = self._model["shapes"][name]
        match shape["type"]:
            case "structure":
                return self._structure(name, shape)
            case "list":
                return {"type": "array", "items": self._schema(shape["member"]["shape"])}
            case "map":
                return {"type": "object", "additionalProperties": self._schema(shape["value"]["shape"])}
            case kind:
                closed = "enum" in shape and (self._service, name) not in _ANY_CASE | _EXTENDED
                return {"type": _SCALARS[kind], **({"enum": shape["enum"]} if closed else {})}

    def _structure(self, name: str, shape: Mapping[str, Any]) -> Json:
        component = f"{self._service}.{name}"
        if component not in self.schemas:
            self.schemas[component] = {}  # shapes may contain themselves
            properties = {member: self._schema(value["shape"]) for member, value in shape["members"].items()}
            if name in self._additions:
                properties["batchq"] = dict(self._additions[name])
            named = [item for item in shape.get("required", ()) if (component, item) not in _OPTIONAL]
            required = {"required": named} if named else {}
            self.schemas[component] = {"type": "object", "properties": properties, **required}
        return {"$ref": _REF.format(component)}


def _any_value(kind: type) -> Json:
    """The schema of `object`, the only type that msgspec does not describe and answers may have."""
    if kind is not object:
        raise NotImplementedError
    return {"description": "Any value."}


def _without_nulls(schema: Json) -> Json:
    """The schema of a Struct, whose members with the default None are omitted instead of null."""
    schema.pop("title", None)
    properties = cast("Mapping[str, Json]", schema.get("properties", {}))
    for member in properties.values():
        if "default" in member and member["default"] is None:
            del member["default"]
            kinds = [document for document in cast("list[Json]", member.pop("anyOf", [])) if document != _NULL]
            member.update(kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {})
    return schema


def _described(schema: Json, texts: Mapping[str, str]) -> Json:
    """The schema with the texts of its members."""
    properties = cast("Mapping[str, Json]", schema.get("properties", {}))
    for name, text in texts.items():
        properties[name]["description"] = text
    return schema


def texts_of(shape: type) -> Mapping[str, str]:
    """The text of each field that has a comment, by the name of the attribute; inherited fields included."""
    found: dict[str, str] = {}
    for base in reversed(shape.__mro__):
        if base not in {Struct, BaseModel} and issubclass(base, Struct | BaseModel):
            found |= _module_texts(base.__module__).get(base.__qualname__, {})
    return found


def struct_texts(shapes: Iterable[type[Struct]]) -> Mapping[str, Mapping[str, str]]:
    """The texts of these shapes, and of all shapes in them, by the name of the shape and of the member."""
    found: dict[str, Mapping[str, str]] = {}
    for info in _structs(msgspec.inspect.multi_type_info(shapes)):
        texts = texts_of(info.cls)
        found[info.cls.__name__] = {
            field.encode_name: texts[field.name] for field in info.fields if field.name in texts
        }
    return found


@cache
def _module_texts(module: str) -> Mapping[str, Mapping[str, str]]:
    """The texts of the fields of each class of a module, by the name of the class.

    `inspect.getsource(cls)` would parse the whole module again for each class.
    """
    source = inspect.getsource(sys.modules[module])
    lines = source.splitlines()
    classes = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    return {node.name: dict(_texts_in(lines[node.lineno - 1 : node.end_lineno])) for node in classes}


def _texts_in(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The name of each field that has a comment, and the text, in the lines of a class."""
    comment: list[str] = []
    for line in lines:
        if text := _COMMENT.fullmatch(line):
            comment.append(text[1])
            continue
        if comment and (field := _FIELD.match(line)):
            yield field[1], " ".join(comment)
        comment = []


def _structs(infos: Iterable[object]) -> Iterator[msgspec.inspect.StructType]:
    """Each struct among these types, and each struct that a member of one of them contains, once."""
    seen: set[type] = set()
    waiting = list(infos)
    while waiting:
        match waiting.pop():
            case msgspec.inspect.StructType() as struct if struct.cls not in seen:
                seen.add(struct.cls)
                waiting += [field.type for field in struct.fields]
                yield struct
            case msgspec.inspect.UnionType() as union:
                waiting += union.types
            case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType() as several:
                waiting.append(several.item_type)
            case msgspec.inspect.DictType() as mapping:
                waiting.append(mapping.value_type)
            case _:
                pass
