"""What the host with the site's cache of images keeps, as its unit reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DockerMirror:
    """``directory``: of the registry; ``most``: how much it may have (``200G``). ``url``: where the registry answers.
    ``images``: what it is to have before anybody asks, such as ``pytorch/pytorch:2.4``."""

    directory: str
    most: str
    url: str
    images: Sequence[str] = ()
