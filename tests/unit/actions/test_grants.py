"""Grants by verbs: until when, what is shown before, and what is refused."""

from datetime import datetime

import pytest

from gpuadmin.actions.grant import Granting, end
from gpuadmin.actions.shared.grants import gpu_words
from gpuadmin.errors import ConfigError

NOW = datetime(2027, 3, 4, 15, 30, 20)


def asked(hours: int | None = None, until: str | None = None) -> Granting:
    return Granting("minji", "gpu1", 1, (), hours, until, "")


@pytest.mark.parametrize(
    ("request_", "when"),
    [
        (asked(hours=8), datetime(2027, 3, 4, 23, 30, 20)),
        (asked(until="tonight"), datetime(2027, 3, 4, 23, 59)),
        (asked(until="18:00"), datetime(2027, 3, 4, 18)),
        (asked(until="2027-03-05"), datetime(2027, 3, 5, 23, 59)),
        (asked(until="2027-03-05T09:00"), datetime(2027, 3, 5, 9)),
    ],
    ids=str,
)
def test_until_when(request_: Granting, when: datetime) -> None:
    assert end(request_, NOW) == when


@pytest.mark.parametrize(
    ("until", "why"),
    [("15:30", "is over"), ("2027-03-03", "is over"), ("tomorrow", "is not a time"), ("", "is not a time")],
)
def test_what_is_not_a_time_to_come(until: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        end(asked(until=until), NOW)


def test_gpus_by_their_places() -> None:
    assert gpu_words(["GPU-b", "GPU-a"], ["GPU-a", "GPU-b"]) == "GPU 1, 0"
    assert gpu_words(["GPU-gone"], ["GPU-a"]) == "GPU GPU-gone"
