"""What is said of one person on one host: how it stands, what is done, what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class UserReport:
    status: str = "ok"
    operations: list[str] = field(default_factory=list)
    problem: str | None = None

    def as_dict(self) -> dict[str, object]:
        return {"status": self.status, "operations": list(self.operations), "problem": self.problem}
