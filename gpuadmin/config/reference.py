"""What is made from the schema: JSON Schema for editors, and the reference page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from gpuadmin.config.schema import Registry, Settings

#: Where a site has them. Ansible skips what is hidden in a directory that is given as inventory (`-i SITE`).
SCHEMAS = ".schemas"
FILES: dict[str, tuple[str, type[BaseModel]]] = {
    f"{SCHEMAS}/gpuadmin.schema.json": ("gpuadmin.yml", Settings),
    f"{SCHEMAS}/users.schema.json": ("users.yml", Registry),
}


def json_schemas() -> dict[str, str]:
    """The JSON Schemas, by their files in a site."""
    found = {}
    for file, (title, model) in FILES.items():
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
        schema["title"] = title
        found[file] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    return found


def reference_page() -> str:
    """The reference of gpuadmin.yml and users.yml, as Markdown."""
    lines = ["# Reference of a site's files", "", "Made from the schema: `gpuadmin schema --reference`.", ""]
    for title, model in FILES.values():
        lines += [f"## {title}", "", "| field | type | default | meaning |", "| --- | --- | --- | --- |"]
        schema = model.model_json_schema()
        for path, kind, default, text in _rows(schema, schema, ""):
            lines.append(f"| `{path}` | {kind} | {default} | {text} |")
        lines.append("")
    return "\n".join(lines)


def _rows(node: dict[str, Any], root: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    required = node.get("required", [])
    for name, field in node.get("properties", {}).items():
        path = f"{prefix}{name}"
        inner, nullable = _resolved(field, root)
        is_list = inner.get("type") == "array"
        item = _resolved(inner["items"], root)[0] if is_list else inner
        has_fields = "properties" in item
        kind = _kind(item) + ("s" if is_list and not has_fields and "enum" not in item else "")
        if is_list:
            kind = f"list of {kind}" if not has_fields else "list"
        default = "required" if name in required else _default(field, nullable, has_fields)
        # pydantic leaves a field's text out where it is the same as that of what the field holds
        meaning = field.get("description") or item.get("description", "")
        yield path, kind, default, str(meaning).replace("|", "\\|")
        if has_fields:
            yield from _rows(item, root, f"{path}[]." if is_list else f"{path}.")


def _resolved(field: dict[str, Any], root: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Follow `$ref` and take the part of `X | null` that is not null."""
    nullable = False
    if "anyOf" in field:
        nullable = any(option.get("type") == "null" for option in field["anyOf"])
        field = next(option for option in field["anyOf"] if option.get("type") != "null")
    if "$ref" in field:
        field = root["$defs"][field["$ref"].rpartition("/")[2]]
    return field, nullable


def _kind(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "properties" in field:
        return "fields"
    if field.get("format") == "date":
        return "date"
    return {"string": "text", "integer": "number", "number": "number", "boolean": "true or false"}.get(
        str(field.get("type")), "value"
    )


def _default(field: dict[str, Any], nullable: bool, has_fields: bool) -> str:
    default = field.get("default")
    if has_fields:
        return "—" if nullable or default == [] else ""
    if default is None:
        return "—"
    return f"`{json.dumps(default, ensure_ascii=False)}`".replace('"', "")
