"""What the inventory may say of a host: its GPUs, limits of people, and which box it is.

It is checked like any other setting of a site.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from gpuadmin.config.fields import plain_text
from gpuadmin.config.schema import gpus, limits
from gpuadmin.config.schema.bmc import HostBmc

#: What a host may have of the site's section `gpus`, under which name; and of the section `limits`.
SETTINGS = {f"gpus_{name}": name for name in gpus.OF_A_HOST}
LIMITS = {f"limits_{name}": name for name in limits.OF_A_HOST}
#: Which box it is, and whose: `audit` shows them, and nothing else reads them.
OF_THE_BOX = ("place", "owner", "purpose")
#: Of a host that serves homes, or keeps copies: where its backups are, and whether people may only read (`promote`).
OF_HOMES = ("backups_directory", "homes_read_only")
NAMES = ("gpus", "gpu_model", "slurm_node", "bmc", *OF_HOMES, *OF_THE_BOX, *SETTINGS, *LIMITS)
_MOST = 64
_LONGEST = 96  # of a GPU's name, as NVML has it


def problems(variables: Mapping[str, Any]) -> list[str]:
    """What is wrong with a host's variables, each as `gpus 'eight' is …`."""
    found = []
    number, model = variables.get("gpus"), variables.get("gpu_model")
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _MOST):
        found.append(f"gpus {_quoted(number)} is not a number from 0 to {_MOST}: how many GPUs the node should have")
    if model is not None:
        if not isinstance(model, str) or not model.strip():
            found.append(f"gpu_model {_quoted(model)} is not text: a part of the GPUs' name, such as H100")
        else:
            try:
                plain_text(model, longest=_LONGEST)
            except ValueError as error:
                found.append(f"gpu_model {error}")
    for name in OF_THE_BOX:
        if (value := variables.get(name)) is not None:
            try:
                plain_text(value if isinstance(value, str) else "\n", longest=_LONGEST)
            except ValueError as error:
                # YAML reads 301 as a number and 2027-01-01 as a date
                what = error if isinstance(value, str) else f"{_quoted(value)} is not text; put it into quotes"
                found.append(f"{name} {what}")
    if variables.get("bmc") is not None:
        try:
            HostBmc.model_validate(variables["bmc"])
        except ValidationError as error:
            one = error.errors()[0]
            where = ".".join(["bmc", *map(str, one["loc"])])
            found.append(f"{where} {_quoted(one['input'])}: {one['msg'].removeprefix('Value error, ')}")
    takes_jobs = variables.get("slurm_node")
    if takes_jobs is not None and not isinstance(takes_jobs, bool):
        found.append(f"slurm_node {_quoted(takes_jobs)} is neither true nor false: whether the node takes Slurm's jobs")
    return [*found, *_settings(variables, SETTINGS, gpus.Gpus), *_settings(variables, LIMITS, limits.Limits)]


def _settings(variables: Mapping[str, Any], names: Mapping[str, str], section: type[BaseModel]) -> Iterator[str]:
    for name, field in names.items():
        value = variables.get(name)
        if value is None:
            continue
        kind: Any = section.model_fields[field].annotation
        bounds = section.model_fields[field].metadata  # pydantic keeps them apart from the type
        whole: Any = Annotated[(kind, *bounds)] if bounds else kind
        try:
            TypeAdapter(whole).validate_python(value, strict=True)
        except ValidationError as error:
            choices = getattr(kind, "__args__", ())
            if kind is bool:
                yield f"{name} {_quoted(value)} is neither true nor false"
            elif kind is int:
                yield f"{name} {_quoted(value)} is not a whole number from {bounds[0].ge} to {bounds[1].le}"
            elif all(isinstance(choice, str) for choice in choices) and choices:
                yield f"{name} {_quoted(value)} is not one of {', '.join(choices)}"
            else:
                yield f"{name} {error.errors()[0]['msg'].removeprefix('Value error, ')}"


def _quoted(value: object) -> str:
    return repr(value)[:60]
