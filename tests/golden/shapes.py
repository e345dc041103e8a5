"""The shape of a stored type as text, and an example of it in which every member is present.

Both are derived from the type alone. Class names are not part of a shape, for they are not stored.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, inspect

LEAVES: dict[type[inspect.Type], tuple[str, Any]] = {
    inspect.StrType: ("string", "text"),
    inspect.IntType: ("integer", 7),
    inspect.FloatType: ("number", 2.5),
    inspect.DecimalType: ("decimal", "12.75"),
    inspect.BoolType: ("boolean", True),
    inspect.DateTimeType: ("date-time", "2026-11-21T12:00:00.000001Z"),
    inspect.TimeDeltaType: ("duration", "PT90.5S"),
    inspect.NoneType: ("null", None),
}
ARRAYS = (inspect.VarTupleType, inspect.ListType, inspect.FrozenSetType, inspect.SetType, inspect.CollectionType)


def shape(of: Any, *, without: str | None = None) -> str:
    """One line for each member: its name, its type, and its default where it may be absent.

    `without` is a member of the outermost object that is stored elsewhere.
    """
    found = inspect.type_info(of)
    return "\n".join([_name(found), *_lines(found, "  ", without)]) + "\n"


def example(of: Any) -> Any:
    """A value of this type. Every member of every object in it is present, and differs from its default."""
    return msgspec.convert(_example(inspect.type_info(of)), of)


def _lines(of: inspect.Type, indent: str, without: str | None = None) -> Iterator[str]:
    if isinstance(of, inspect.StructType):
        for field in (field for field in of.fields if field.encode_name != without):
            yield f"{indent}{field.encode_name}: {_name(field.type)}{_default(field)}"
            yield from _lines(field.type, f"{indent}  ")
    for inner in _inner(of):
        yield from _lines(inner, indent)


def _name(of: inspect.Type) -> str:
    match of:
        case inspect.UnionType(types=types):
            return " | ".join(sorted(map(_name, types), key=lambda value: (value in {"null", "absent"}, value)))
        case inspect.EnumType(cls=cls):
            return " | ".join(repr(other_value.value) for other_value in cls)
        case inspect.LiteralType(values=values):
            return " | ".join(map(repr, values))
        case inspect.TupleType(item_types=items):
            return f"array of {len(items)}: {', '.join(map(_name, items))}"
        case inspect.DictType(key_type=key):
            return f"object by {_name(key)} of {_name(of.value_type)}"
        case inspect.StructType():
            return "object"
        case _ if isinstance(of, ARRAYS):
            return f"array of {_name(of.item_type)}"
    return LEAVES[type(of)][0]


def _inner(of: inspect.Type) -> tuple[inspect.Type, ...]:
    match of:
        case inspect.UnionType(types=types):
            return types
        case inspect.TupleType(item_types=items):
            return items
        case inspect.DictType(value_type=value):
            return (value,)
    return (of.item_type,) if isinstance(of, ARRAYS) else ()


def _default(field: inspect.Field) -> str:
    value = field.default if field.default_factory is NODEFAULT else field.default_factory()
    if value is NODEFAULT:
        return ""
    return " = {}" if isinstance(value, msgspec.Struct) and _is_all_default(value) else f" = {_json(value)}"


def _is_all_default(value: msgspec.Struct) -> bool:
    return msgspec.to_builtins(value) == {}


def _json(value: Any) -> str:
    return "absent" if value is UNSET else msgspec.json.encode(value).decode()


def _example(of: inspect.Type, default: object = NODEFAULT) -> Any:
    match of:
        case inspect.UnionType(types=types):
            return _example(next(other_type for other_type in types if _name(other_type) not in {"null", "absent"}))
        case inspect.EnumType(cls=cls):
            return next(member.value for member in reversed(cls) if member is not default)
        case inspect.LiteralType(values=values):
            return values[-1]
        case inspect.TupleType(item_types=items):
            return [_example(value) for value in items]
        case inspect.DictType(key_type=key, value_type=value):
            return {_example(key): _example(value)}
        case inspect.StructType(fields=fields):
            return {field.encode_name: _example(field.type, field.default) for field in fields}
        case inspect.BoolType():
            return default is not True
        case _ if isinstance(of, ARRAYS):
            return [_example(of.item_type)]
    return LEAVES[type(of)][1]
