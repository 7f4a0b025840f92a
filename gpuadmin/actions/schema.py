"""Print the JSON Schema of a site's files, or explain every field."""

from __future__ import annotations

from gpuadmin.config.reference import json_schemas, reference_page
from gpuadmin.console import say_document


def schema(file: str, *, reference: bool) -> int:
    """Print the schema of gpuadmin.yml or users.yml; `reference`: a page about both. Returns the exit code."""
    if reference:
        say_document(reference_page(), end=False)
    else:
        say_document(json_schemas()[f"{file.removesuffix('.yml')}.schema.json"], end=False)
    return 0
