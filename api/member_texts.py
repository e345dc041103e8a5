"""The texts of members in /openapi.json: the `#:` comments above the fields of the shapes of requests and answers.

So a member is documented once, where it is defined.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct
from pydantic import BaseModel

_COMMENT = re.compile(r" {4}#: ?(.*)")
_FIELD = re.compile(r" {4}(\w+) *:(?!:)")


def texts_of(shape: type) -> Mapping[str, str]:
    """The text of each field that has a comment, by the name of the attribute; inherited fields included."""
    found: dict[str, str] = {}
    for base in reversed(shape.__mro__):
        if base not in {Struct, BaseModel} and issubclass(base, Struct | BaseModel):
            found |= _own_texts(base)
    return found


def struct_texts(shapes: Iterable[type[Struct]]) -> Mapping[str, Mapping[str, str]]:
    """The texts of these shapes, and of all shapes in them, by the name of the shape and of the member."""
    found: dict[str, Mapping[str, str]] = {}
    for info in _structs(msgspec.inspect.multi_type_info(shapes)):
        texts = texts_of(info.cls)
        found[info.cls.__name__] = {it.encode_name: texts[it.name] for it in info.fields if it.name in texts}
    return found


def _own_texts(shape: type) -> Iterator[tuple[str, str]]:
    comment: list[str] = []
    for line in inspect.getsource(shape).splitlines():
        if text := _COMMENT.fullmatch(line):
            comment.append(text[1])
            continue
        if comment and (field := _FIELD.match(line)):
            yield field[1], " ".join(comment)
        comment = []


def _structs(infos: Iterable[object]) -> Iterator[msgspec.inspect.StructType]:
    """All structs among these types and in them, each once."""
    seen: set[type] = set()
    waiting = list(infos)
    while waiting:
        match waiting.pop():
            case msgspec.inspect.StructType() as struct if struct.cls not in seen:
                seen.add(struct.cls)
                waiting += [it.type for it in struct.fields]
                yield struct
            case msgspec.inspect.UnionType() as union:
                waiting += union.types
            case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType() as several:
                waiting.append(several.item_type)
            case msgspec.inspect.DictType() as mapping:
                waiting.append(mapping.value_type)
            case _:
                pass
