"""Holding a file against its schema, with an error that names every mistake and its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gpuadmin.config.fields import TEMPLATE_MARKERS
from gpuadmin.config.yamlfile import YamlFile
from gpuadmin.errors import ConfigError

ModelT = TypeVar("ModelT", bound=BaseModel)


def validated(model: type[ModelT], file: YamlFile) -> ModelT:
    """Given a schema and a file, return the model; raise ConfigError with a line per mistake."""
    problems = [f"{file.where(path)}: {text}" for path, text in _markers(file.data)]
    if problems:
        raise ConfigError(
            "\n  ".join(problems),
            hint="template markers are refused in a site's data; write the value itself",
        )
    try:
        return model.model_validate(file.data)
    except ValidationError as error:
        lines = [f"{file.where(item['loc'])}: {_message(item)}" for item in error.errors()]
        raise ConfigError("\n  ".join(lines), hint="gpuadmin schema --reference explains every field") from None


def _message(item: Mapping[str, Any]) -> str:
    """pydantic's message, for an admin who does not know pydantic."""
    given = item.get("input")
    match item["type"]:
        case "extra_forbidden":
            return "there is no such field"
        case "missing":
            return "is missing"
        case "value_error":
            return str(item["msg"]).removeprefix("Value error, ")
        case "model_type" | "dict_type":
            return f"must hold fields (key: value), not {type(given).__name__}"
    message = str(item["msg"])
    return f"{message[0].lower()}{message[1:]}" + (
        f" (it is {given!r})" if isinstance(given, str | int | float) else ""
    )


def _markers(value: object, path: Sequence[str | int] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        found = [marker for marker in TEMPLATE_MARKERS if marker in value]
        if found:
            yield tuple(path), f"holds the template marker '{found[0]}'"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _markers(item, (*path, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _markers(item, (*path, index))
