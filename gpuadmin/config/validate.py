"""Holding a file against its schema, with an error that names every mistake and its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from gpuadmin.config.fields import TEMPLATE_MARKERS
from gpuadmin.config.yamlfile import YamlFile, describe_kind
from gpuadmin.errors import ConfigError
from gpuadmin.similar import did_you_mean

ModelT = TypeVar("ModelT", bound=BaseModel)


def validated(model: type[ModelT], file: YamlFile, data: object = None) -> ModelT:
    """Given a schema and a file, return the model; raise ConfigError with a line per mistake.

    `data`: the file's, where what is validated differs from it.
    """
    found = [(path, text) for path, text in _markers(file.data)]
    hints = ["template markers are refused in a site's data; write the value itself"] if found else []
    valid = None
    try:
        valid = model.model_validate(file.data if data is None else data)
    except ValidationError as error:
        wrong = mistakes(model, error)
        marked = {path for path, _ in found}
        found += [(path, text) for path, text in wrong if path not in marked]
        hints += ["gpuadmin schema --reference explains every field"] * (len(found) > len(marked))
    if found or valid is None:
        raise ConfigError("\n  ".join(f"{file.where(path)}: {text}" for path, text in found), hint="; ".join(hints))
    return valid


def mistakes(model: type[BaseModel], error: ValidationError) -> list[tuple[tuple[str | int, ...], str]]:
    """Given what pydantic found, return the place of each mistake and what is wrong, for people who do not know
    pydantic."""
    found = error.errors(include_url=False)
    for item in found:
        if item["type"] == "invalid_key":  # a date, a number: as it is in the file, not as Python writes it
            item["loc"] = (*item["loc"][:-1], str(item["input"]))
    return [(item["loc"], _message(model, item)) for item in found]


def _message(model: type[BaseModel], item: Mapping[str, Any]) -> str:
    kind, place = str(item["type"]), item["loc"]
    if kind == "extra_forbidden":
        names = ".".join(one for one in place if isinstance(one, str))
        if names in GONE:
            return f"there is no such field any more: {GONE[names]}; remove the line"
        return f"there is no such field{_meant(model, place)}"
    if kind == "value_error":
        return str(item["msg"]).removeprefix("Value error, ")
    words = _WORDS.get(kind) or next(
        (f"must be {wanted}, not {{given}}" for start, wanted in _WANTED.items() if kind.startswith(start)),
        "must be something else than {given}",
    )
    if place[-1:] == ("uid",) and kind in ("greater_than_equal", "less_than_equal"):
        words = (
            "{given} is not a uid for an admin's account, which is a system account: 100 to 999"
            if place[0] == "admins"
            else "{given} is not a uid for people; the site's range is accounts.uid_first to accounts.uid_last"
        )
    return words.format(
        given=_brief(item.get("input")), name=str(place[-1])[:60] if place else "", **item.get("ctx", {})
    )


#: Fields that a site of an earlier gpuadmin may still have, and what is done now, or where the same is said.
GONE = {
    "slurm.groups.people": "say it in users.yml: `group: NAME` at each person (gpuadmin change-user --group)",
    "slurm.half_life": "what somebody has used counts half after 7 days",
    "images.relay_port": "nodes pass full images on to each other on TCP port 7370, or get them from the store",
    "metrics.repeat_hours": "an alert that still holds is sent again after 12 hours",
    "metrics.dashboard.sees": "everybody sees on the pages who holds which GPU, as on the nodes, unless "
    "metrics.dashboard.enabled is false",
    "metrics.dashboard.link_minutes": "a link works for 10 minutes, once",
    "metrics.dashboard.session_hours": "a browser needs a new link after 12 hours",
    "gpus.health.burn_in_minutes": "a burn-in has a day at most",
    "mail.timeout": "the server has 30 seconds to answer",
    "backups.workers": "2 homes are read at once",
    "audit.seconds": "the files of all people on a host have 60 seconds",
    "audit.ssh.client_alive_interval": "gpuadmin compare names the host whose sshd differs in this",
    "audit.ssh.client_alive_count_max": "gpuadmin compare names the host whose sshd differs in this",
}
#: What pydantic's kinds of mistakes are in an admin's words.
_WORDS = {
    "missing": "is missing",
    "invalid_key": "a field's name must be a text; put {name} into quotes",
    "literal_error": "must be {expected}, not {given}",
    "greater_than_equal": "must be {ge} or more, not {given}",
    "less_than_equal": "must be {le} or less, not {given}",
    "model_type": "must hold fields (key: value), not {given}",
    "too_short": "must hold at least {min_length}, and holds {actual_length}",
    "too_long": "must hold at most {max_length}, and holds {actual_length}",
}
#: For the others: how their names begin, and what is wanted there.
_WANTED = {
    "int": "a whole number", "float": "a number", "bool": "true or false",
    "string": "a text (numbers and dates in quotes)", "list": "a list (`- …` on lines of their own, or [a, b])",
    "date": "a date, YYYY-MM-DD",
}  # fmt: skip


def _brief(given: object) -> str:
    """What was given, if it is short."""
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, str | int | float):
        return repr(given) if len(str(given)) <= 60 else f"{describe_kind(given)} of {len(str(given))} characters"
    return describe_kind(given)


def _meant(model: type[BaseModel], place: Sequence[str | int]) -> str:
    """For an unknown field: the one that may be meant."""
    inner: Any = model
    for step in place[:-1]:
        if isinstance(step, str):
            inner = inner.model_fields[step].annotation
        inner = _model_in(inner)
        if inner is None:
            return ""
    close = did_you_mean(str(place[-1]), inner.model_fields)
    return f"; {close}" if close else ""


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in `Model | None`, or in `list[Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)


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
