"""Finding a site. Imports little: the shell asks for it while somebody types."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from gpuadmin.errors import ConfigError
from gpuadmin.reading import expanded, ours

SETTINGS_FILE = "gpuadmin.yml"
USERS_FILE = "users.yml"


def find_site(given: str | None) -> Path:
    """Given the value of --site, return the site's directory: that, $GPUADMIN_SITE, or the nearest one upwards."""
    named = given or os.environ.get("GPUADMIN_SITE")
    if named:
        directory = expanded(named).absolute()
        if not os.path.lexists(directory / SETTINGS_FILE):
            source = "--site" if given else "GPUADMIN_SITE"
            raise ConfigError(
                f"{directory}: no {SETTINGS_FILE} there ({source})",
                hint=f"gpuadmin init {shlex.quote(str(directory))} writes one",
            )
        return directory
    here = Path.cwd()
    for directory in (here, *here.parents):
        settings = directory / SETTINGS_FILE
        if os.path.lexists(settings):  # whatever it is: a site further up is a different one
            # guard: who stands in somebody's directory runs nothing of theirs
            if not (ours(directory) and ours(settings)):
                raise ConfigError(
                    f"{settings}: is another account's, and a site can have any program run as you",
                    hint=f"if it is your site: --site {shlex.quote(str(directory))}, or GPUADMIN_SITE",
                )
            return directory
    raise ConfigError(
        f"no {SETTINGS_FILE} in {here} or above it",
        hint="go into a site's directory, give --site DIR, or make one: gpuadmin init DIR",
    )


def find_runs_directory(site: Path) -> Path:
    """Where a site keeps its records and its memory of uids. Raises ConfigError if something else has that name: a link
    to a disk that is not mounted is not a site without records.
    """
    runs = site / "runs"
    if os.path.lexists(runs) and not runs.is_dir():  # guard: records that are somewhere else are not none
        raise ConfigError(
            f"{runs}: is not a directory, or a broken link, so it is not known what ran before and who had which uid",
            hint="mount or restore what it should be; for a site without records delete it",
        )
    return runs
