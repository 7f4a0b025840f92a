"""The report on one person (or one thing of theirs) on one host: its status, what is done, what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from gpuadmin.common.records.people import UserReport

Entry = TypeVar("Entry", bound=UserReport)


@dataclass
class Reports(Generic[Entry]):
    """Reports by name. ``KEY``: their key in a module's report; ``PREFIX``: what a name is, in sentences."""

    KEY: ClassVar[str] = "users"
    PREFIX: ClassVar[str] = ""

    entries: dict[str, Entry] = field(default_factory=dict)

    @property
    def operations(self) -> list[str]:
        return [f"{self.PREFIX}{name}: {text}" for name, one in self.entries.items() for text in one.operations]

    @property
    def conflicts(self) -> list[str]:
        return [f"{self.PREFIX}{name}: {one.problem}" for name, one in self.entries.items() if one.status == "conflict"]

    def report(self) -> Mapping[str, object]:
        return {self.KEY: self.entries, "problems": []}
