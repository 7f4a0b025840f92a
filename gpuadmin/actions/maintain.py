"""Windows in which nodes are maintained: announcements with times, which Slurm and the nodes hold."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime

from gpuadmin.actions.announce import Announcing, announce, list_announcements, take_back
from gpuadmin.actions.shared.grants import clock
from gpuadmin.announcements import Announcements, Window
from gpuadmin.config.fields import plain_text
from gpuadmin.errors import ConfigError, RefusedError
from gpuadmin.options import MailOptions, Options
from gpuadmin.session import opened

__all__ = ["begin_window", "list_announcements", "maintain", "take_back"]
_TEXTS = {
    "en": "Maintenance of {{hosts}}: {begin} to {until}\n{reason}\nNothing starts there that would run into it, and "
    "GPUs that were granted go back before. Save your work: programs may be ended.",
    "ko": "점검: {{hosts}}, {begin}부터 {until}까지\n{reason}\n그 전에 끝나지 않는 작업은 시작하지 않고, 받은 GPU는 "
    "점검 전에 반납됩니다. 실행 중인 프로그램은 종료될 수 있으니 미리 저장하세요.",
}


def maintain(
    options: Options, mail: MailOptions, times: tuple[str, str], pattern: str, reason: str, verb: Sequence[str],
    instead: str | None = None,
) -> int:  # fmt: skip
    """Announce a window, and hold it. `times`: from, until. `instead`: the id of one that it moves, with all else.
    Returns the exit code."""
    try:
        begin, until = (int(datetime.fromisoformat(one).timestamp()) for one in times)
    except ValueError as error:
        raise ConfigError(f"--from, --until: {error}", hint="write '2026-11-28 18:00'") from None
    if not time.time() < until > begin:
        raise ConfigError("--until is before --from, or past")
    try:
        window = Window(begin, until, plain_text(reason), tuple(verb))
    except ValueError as error:
        raise ConfigError(f"--reason: {error}") from None
    if instead is not None:
        instead, old, _ = _find(options, instead)
        window = replace(old, begin=begin, until=until)
        if window == old:
            raise ConfigError(f"{instead} is at that time already")
    given = window.reason.replace("{", "{{").replace("}", "}}")
    values = {"begin": clock(begin), "until": clock(until), "reason": given}
    texts = {language: text.format(**values) for language, text in _TEXTS.items()}
    day = date.fromtimestamp(until)
    return announce(options, mail, Announcing(texts, None, day, pattern or None, True, window, instead))


def begin_window(options: Options, name: str) -> int:
    """Run its verb, and end the window when that is done. Returns the exit code."""
    id, window, site = _find(options, name)
    if not window.begin <= time.time() < window.until:  # guard: nothing is done at another time than people were told
        times = f"from {clock(window.begin)} to {clock(window.until)}"
        raise RefusedError(f"the window is {times}", hint=f"gpuadmin maintain --move {id} --from TIME --until TIME")
    verb, *rest = window.verb or [""]
    agreed = ["--yes"] if options.yes and verb != "run" else []  # which asks nothing
    command = [sys.executable, "-P", "-m", "gpuadmin", verb, "--site", site, *agreed, *rest]
    # guard: a window stays where its verb fails -> 0
    code = subprocess.run(command, check=False, stdout=sys.stderr if options.json else None).returncode if verb else 0
    return code or take_back(options, id)


def _find(options: Options, name: str) -> tuple[str, Window, str]:
    """The id of a window, the window, and its site's directory. Raises ConfigError."""
    with opened("maintain", options, changes=False) as session:
        one = Announcements.of(session.site.directory).find(name)
        if one.window is None:
            raise ConfigError(f"{one.id} announces no maintenance", hint="gpuadmin maintain shows what is announced")
        return one.id, one.window, str(session.site.directory)
