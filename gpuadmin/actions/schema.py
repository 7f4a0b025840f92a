"""Print the JSON Schema of a site's files, or explain every field."""

from __future__ import annotations

import json

from gpuadmin.config.reference import SCHEMAS, json_schemas, reference_page
from gpuadmin.console import echo_document
from gpuadmin.report import local_document


def schema(file: str, *, reference: bool, as_json: bool) -> int:
    """Print the schema of gpuadmin.yml or users.yml; `reference`: a page about both. Returns the exit code."""
    page = reference_page() if reference else json_schemas()[f"{SCHEMAS}/{file.removesuffix('.yml')}.schema.json"]
    if as_json:
        result = {"reference": page} if reference else {"file": file, "schema": json.loads(page)}
        echo_document(local_document("schema", result))
    else:
        echo_document(page, end=False)
    return 0
