"""gpuadmin schema"""

from __future__ import annotations

import click

from gpuadmin.cli._options import json_option


@click.command("schema")
@click.argument("file", type=click.Choice(["gpuadmin.yml", "users.yml"]), default="gpuadmin.yml")
@click.option("--reference", is_flag=True, help="Explain every field of both files, as Markdown.")
@json_option
def command(file: str, reference: bool, as_json: bool) -> int:
    """Print the JSON Schema of gpuadmin.yml or users.yml, for editors; or explain every field."""
    from gpuadmin.actions.schema import schema

    return schema(file, reference=reference, as_json=as_json)
