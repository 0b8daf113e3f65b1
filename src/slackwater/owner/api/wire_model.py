"""Base classes of wire values. Annotations of the fields define the JSON form once.

A value is a frozen dataclass. This process creates values without checks. The annotations define serialization,
documentation, parsing and validation for other processes. Keys are camelCase. pydantic implements all of this. It is
imported when the first value is sent or received.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args, get_origin

from slackwater.errors import InvalidArgument

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError
    from typing_extensions import Self

Json = dict[str, Any]
T = TypeVar("T")

_WORD = re.compile(r"\w+")


@functools.cache
def camel(name: str) -> str:
    """Return the JSON key of the field `name`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


class WireType:
    """Annotation with the wire form of a field, if the type of the field is not sufficient.

    `rules` are rules of pydantic's `Field`. `kind` is the wire type, if different from the field's type. `after`
    converts the validated wire value to the field's value. `write` converts back, to the type `written`. `before` sees
    the raw input. `schema` is the JSON schema if the type has none. `told` describes the field for users, see
    `checked`. Sequences and mappings become arrays and objects.
    """

    __slots__ = ("_after", "_before", "_kind", "_rules", "_schema", "_write", "_written", "told")

    def __init__(
        self,
        kind: Any = None,
        *,
        before: Callable[[Any], Any] | None = None,
        after: Callable[[Any], Any] | None = None,
        write: Callable[[Any], Any] | None = None,
        written: Any = None,
        schema: Json | None = None,
        told: str = "",
        **rules: Any,
    ) -> None:
        self._kind = kind
        self._before = before
        self._after = after
        self._write = write
        self._written = written
        self._schema = schema
        self._rules = rules
        self.told = told

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        import pydantic

        kind, holder = (self._kind, None) if self._kind is not None else _held(source)
        said: list[Any] = [pydantic.Field(**self._rules)]
        if self._before is not None:
            said.append(pydantic.BeforeValidator(self._before))
        if self._after is not None:
            said.append(pydantic.AfterValidator(self._after))
        if self._write is not None:
            said.append(pydantic.PlainSerializer(self._write, return_type=self._written or kind))
        elif holder is not None:
            said.append(pydantic.WrapSerializer(lambda value, write: write(holder(value))))
        if self._schema is not None:
            said.append(pydantic.WithJsonSchema(self._schema))
        annotations = (kind, *said)
        return handler.generate_schema(Annotated[annotations])


class WireModel:
    """A request or response, in this process and in JSON."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Json] = {
        "alias_generator": camel,
        "extra": "forbid",
        "strict": True,
        "json_schema_serialization_defaults_required": True,
    }
    in_path: ClassVar[str] = ""
    """Field sent in the path of its request instead of the body."""
    always_sent: ClassVar[tuple[str, ...]] = ()
    """Fields with local defaults only: their keys are required in JSON."""

    def to_json(self) -> Json:
        """Return the JSON object for orjson. Raises ValueError for fields of wrong types."""
        excluded = {self.in_path} if self.in_path else None
        found: Json = adapter(type(self)).dump_python(self, by_alias=True, exclude=excluded, warnings="error")
        return found

    @classmethod
    def from_json(cls, found: Any) -> Self:
        """Return the value written by `to_json`. Raises ValueError for other input, with the location."""
        value: Self = read(cls, found, cls.__name__)
        return value

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        schema = handler(source)
        own = handler.resolve_ref_schema(schema)
        # Strict for the fields only, because the input object is a dictionary and not an instance.
        own["strict"] = False
        for field in own["schema"]["fields"]:
            if field["name"] in cls.always_sent and field["schema"]["type"] == "default":
                field["schema"] = field["schema"]["schema"]
        return schema

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Json:
        found: Json = handler.resolve_ref_schema(handler(schema))
        found["additionalProperties"] = False
        found["description"] = _WORD.sub(lambda word: _documented(word[0], found), found["description"])
        if cls.in_path:
            del found["properties"][camel(cls.in_path)]
            found["required"].remove(camel(cls.in_path))
        return found


class RequestModel(WireModel):
    """A request to an owner. A server rejects unknown fields, because ignoring a field could change the meaning."""

    __slots__ = ()

    def to_json(self) -> Json:
        """Return the JSON object for orjson. Raises InvalidArgument for values without a JSON form."""
        try:
            return super().to_json()
        except ValueError as error:
            if isinstance(error.__cause__, InvalidArgument):
                raise error.__cause__ from None
            raise InvalidArgument(f"{type(self).__name__} cannot be written as JSON: {error}") from error

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Json:
        found: Json = super().__get_pydantic_json_schema__(schema, handler)
        if cls.__pydantic_config__.get("extra") == "ignore":
            # A request of another API, with fields of its newer clients.
            del found["additionalProperties"]
        return found


class ResponseModel(WireModel):
    """A response of an owner. A client ignores fields added by a newer server."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Json] = {**WireModel.__pydantic_config__, "extra": "ignore"}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    import pydantic

    found: TypeAdapter[Any] = pydantic.TypeAdapter(kind)
    if isinstance(kind, type) and issubclass(kind, WireModel):
        # pydantic finds the schema here and does not build it again for each route or union of the class.
        kind.__pydantic_core_schema__ = found.core_schema  # type: ignore[attr-defined]
    return found


adapter: Callable[[Any], TypeAdapter[Any]] = functools.cache(_adapter)
"""Returns the cached pydantic adapter of a type: strict reading and writing."""


def read(kind: Any, found: Any, name: str) -> Any:
    """Return `found`, converted to the type `kind`. Raises ValueError, naming `name`, for invalid input."""
    import pydantic

    try:
        return adapter(kind).validate_python(found)
    except pydantic.ValidationError as error:
        raise ValueError(f"expected {name}, found otherwise: {fault(error)}") from None


def fault(error: ValidationError) -> str:
    """Return the first validation error and its location, without the input."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}"


def checked(kind: Any, what: str, value: T) -> T:
    """Return `value` if valid for a field of the type `kind`. Raises InvalidArgument, naming `what`."""
    import pydantic

    try:
        found: T = adapter(kind).validate_python(value, strict=True)
    except pydantic.ValidationError:
        raise InvalidArgument(f"the {what} is {_told(kind)}, found {value!r}") from None
    return found


def _told(kind: Any) -> str:
    return next(each.told for each in kind.__metadata__ if isinstance(each, WireType))


def _held(source: Any) -> tuple[Any, Any]:
    """Return the wire type of a sequence or mapping (array or object) and its constructor."""
    if get_origin(source) is Sequence:
        return list[get_args(source)], list  # type: ignore[misc]
    if get_origin(source) is Mapping:
        return dict[get_args(source)], dict  # type: ignore[misc]
    return source, None


def _documented(word: str, schema: Json) -> str:
    """Translate a word of a docstring for readers of the JSON described by `schema`."""
    if word == "None":
        return "null"
    return camel(word) if camel(word) in schema["properties"] else word
