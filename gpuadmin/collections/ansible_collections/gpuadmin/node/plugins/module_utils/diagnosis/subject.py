"""The subject of a diagnosis: the person and the host that it is about."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Optional

from gpuadmin.common.records.diagnosis import DiagnosisOrder


@dataclass(frozen=True)
class Subject(DiagnosisOrder):
    """The subject. ``name``: None if only the host is asked about. ``uid``: by users.yml; None if it has none.

    ``own``: the person asks for themselves, without privileges; what only root may read is left out. ``root``: where
    the host's files are; tests have another one.
    """

    name: Optional[str] = None
    uid: Optional[int] = None
    own: bool = False
    root: str = "/"

    @property
    def state(self) -> str:
        return self.state_directory

    def path(self, name: str) -> str:
        return os.path.join(self.root, name.lstrip("/"))


def build_subject(order: DiagnosisOrder) -> Subject:
    """Given an order, return what is asked about."""
    name, uid = (None, None) if order.person is None else (order.person.name, order.person.uid)
    return Subject(**vars(order), name=name, uid=uid)
