"""Numbers, times and names as reports have them: such that readers can reckon with them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

_END = 9000  # dates do not go much further
_NUMBER_NAME = re.compile(r"[0-9]{1,10}")

#: Bytes are the largest counts. A file's size is what its owner says: twenty million sparse ones of 8 EiB are 2**87.
MOST = 2**100
Count = Annotated[int, Field(ge=0, lt=MOST)]  # guard: a count has bounds -> int
#: Seconds since 1970, up to the year 9999, which is as far as dates go.
When = Annotated[float, Field(ge=0, lt=253_370_000_000)]  # guard: a time is one that dates can say -> float
Seconds = Annotated[float, Field(ge=0, lt=1e9)]  # guard: a duration has bounds -> float
Words = dict[str, str]


def _uid_names(found: dict[str, str]) -> dict[str, str]:
    for name in found:
        if not _NUMBER_NAME.fullmatch(name):
            raise ValueError(f"{name[:40]!r} is not a uid")
    return found


def _a_time(text: str) -> str:
    then = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")  # its ValueError names the format
    if not 1970 <= then.year < _END:  # days are added to it
        raise ValueError(f"no backup is from the year {then.year}")
    return text


#: 2026-12-21T01:02:03Z
Stamp = Annotated[str, AfterValidator(_a_time)]
Uids = Annotated[dict[str, str], AfterValidator(_uid_names)]
