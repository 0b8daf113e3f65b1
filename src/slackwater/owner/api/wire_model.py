"""Values that are their own form on the wire: their fields say, once, what they are as JSON.

A value is a frozen dataclass, and this process makes it without any check. What is sent to another process is written,
documented, read and checked by what the annotations of the fields say: keys are camelCase. pydantic does that; it is
loaded when the first value is sent or received.
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
    """The key of the field `name`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


class WireType:
    """As an annotation: what a field is on the wire, where its type alone does not say so.

    `rules` are those of pydantic's `Field`. `kind` is the type there, if another than here: `after` makes of what was
    checked what it is here, `write` the other way round (`written` is the type that it makes). `before` sees what came
    first. `schema` is the JSON schema where the type has none. `told` says to people what the field is, see `checked`.
    Sequences and mappings are arrays and objects.
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
    """What is asked or answered, as this process has it and as JSON."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Json] = {
        "alias_generator": camel,
        "extra": "forbid",
        "strict": True,
        "json_schema_serialization_defaults_required": True,
    }
    in_path: ClassVar[str] = ""
    """The field that stands in the path of its request, and not in the body."""
    always_sent: ClassVar[tuple[str, ...]] = ()
    """Fields whose defaults are for this process alone: their keys must not be missing."""

    def to_json(self) -> Json:
        """The object that is sent, for orjson. Raises ValueError for fields that are not of their types."""
        excluded = {self.in_path} if self.in_path else None
        found: Json = adapter(type(self)).dump_python(self, by_alias=True, exclude=excluded, warnings="error")
        return found

    @classmethod
    def from_json(cls, found: Any) -> Self:
        """The value that `to_json` wrote. Raises ValueError for anything else, saying where."""
        value: Self = read(cls, found, cls.__name__)
        return value

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        schema = handler(source)
        own = handler.resolve_ref_schema(schema)
        # Not the object is to be a value already, but its fields are to be of their types.
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
    """What is asked of an owner: a server refuses what it does not know, for it could not honour it."""

    __slots__ = ()

    def to_json(self) -> Json:
        """The object that is sent, for orjson. Raises InvalidArgument for what JSON cannot hold."""
        try:
            return super().to_json()
        except ValueError as error:
            if isinstance(error.__cause__, InvalidArgument):
                raise error.__cause__ from None
            raise InvalidArgument(f"{type(self).__name__} cannot be written as JSON: {error}") from error


class ResponseModel(WireModel):
    """What an owner answers: a client reads over what a newer server adds."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Json] = {**WireModel.__pydantic_config__, "extra": "ignore"}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    import pydantic

    return pydantic.TypeAdapter(kind)


adapter: Callable[[Any], TypeAdapter[Any]] = functools.cache(_adapter)
"""What reads and writes values of a type, strictly."""


def read(kind: Any, found: Any, name: str) -> Any:
    """The value of the type `kind`, called `name`, that `found` is. Raises ValueError for what is none."""
    import pydantic

    try:
        return adapter(kind).validate_python(found)
    except pydantic.ValidationError as error:
        raise ValueError(f"expected {name}, found otherwise: {fault(error)}") from None


def fault(error: ValidationError) -> str:
    """What is wrong first, and where, without what was found."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}"


def checked(kind: Any, what: str, value: T) -> T:
    """`value`, which is allowed to be that of a field of the type `kind`. Raises InvalidArgument that names `what`."""
    import pydantic

    try:
        found: T = adapter(kind).validate_python(value, strict=True)
    except pydantic.ValidationError:
        raise InvalidArgument(f"the {what} is {_told(kind)}, found {value!r}") from None
    return found


def _told(kind: Any) -> str:
    return next(each.told for each in kind.__metadata__ if isinstance(each, WireType))


def _held(source: Any) -> tuple[Any, Any]:
    """The type of the array or object that a sequence or mapping is on the wire, and what makes it."""
    if get_origin(source) is Sequence:
        return list[get_args(source)], list  # type: ignore[misc]
    if get_origin(source) is Mapping:
        return dict[get_args(source)], dict  # type: ignore[misc]
    return source, None


def _documented(word: str, schema: Json) -> str:
    """A word of a docstring as those know it who know only the JSON that `schema` describes."""
    if word == "None":
        return "null"
    return camel(word) if camel(word) in schema["properties"] else word
