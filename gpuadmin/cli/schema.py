"""gpuadmin schema"""

from __future__ import annotations

import click

from gpuadmin.console import say_document


@click.command("schema")
@click.argument("file", type=click.Choice(["gpuadmin.yml", "users.yml"]), default="gpuadmin.yml")
@click.option("--reference", is_flag=True, help="Explain every field of both files, as Markdown.")
def command(file: str, reference: bool) -> None:
    """Print the JSON Schema of gpuadmin.yml or users.yml, for editors; or explain every field."""
    from gpuadmin.config.reference import json_schemas, reference_page

    if reference:
        say_document(reference_page(), end=False)
    else:
        say_document(json_schemas()[f"{file.removesuffix('.yml')}.schema.json"], end=False)
