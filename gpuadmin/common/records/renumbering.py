"""Records of a host where people get other uids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from ..names import ACCOUNT
from .bounds import Count, Pattern, Size, Uid

Name = Annotated[str, Size(64)]
Sentence = Annotated[str, Size(1000)]
Sentences = Annotated[list[Sentence], Size(200)]
Pair = Annotated[list[Uid], Size(2, 2)]


@dataclass(frozen=True)
class Renamed:
    """A person who gets another name on a host. `homes`: directories before and after. `left`: what keeps its name."""

    was: Annotated[str, Size(64), Pattern(ACCOUNT, "the name of an account")]
    homes: Annotated[list[Annotated[list[Sentence], Size(2, 2)]], Size(2)]
    left: Sentences


@dataclass
class Renumbering:
    """The uids that people have on a host, and what giving them others would mean.

    `trees`: mount point → person → files and bytes. `problem`: what the last boot could not do. `closed`: people whom
    an earlier run has closed that had changed nothing yet, with the uids that it was for. `seen`: entries to go
    through. `kept`: why somebody stays out; `staying`: ids that files still have; `rest`: all others have been let in.
    """

    has: dict[Name, Uid]
    problems: dict[Name, Sentence]
    people: dict[Name, Pair]
    under_way: bool
    whole: bool
    problem: Sentence
    closed: dict[Name, Pair]
    kept: dict[Name, Sentence]
    staying: list[Uid]
    rest: bool
    written: Sentences
    renamed: dict[Name, Renamed]
    trees: dict[Sentence, dict[Name, Annotated[list[Count], Size(2, 2)]]] = field(default_factory=dict)
    seen: Count = 0
    notes: Sentences = field(default_factory=list)
    unknown: Sentences = field(default_factory=list)
