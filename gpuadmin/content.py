"""Where playbooks, roles, inventory and templates are."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def content_path(*parts: str) -> Path:
    """Given path parts such as `("roles", "accounts")`, return where they are.

    The wheel carries them as `gpuadmin/_content/…`; in a checkout they are beside the package.
    """
    packaged = _PACKAGE / "_content"
    return (packaged if packaged.is_dir() else _PACKAGE.parent).joinpath(*parts)


def collections_path() -> Path:
    """The folder above `ansible_collections` that holds gpuadmin's own collection."""
    return _PACKAGE / "collections"
