"""A MariaDB for tests of what saves and restores a database: a directory for each database, a file for each table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

_MARIADB = """#!{python}
import re, shutil, sys
from pathlib import Path
data, asked = Path({data!r}), [one for one in sys.argv[1:] if one.startswith("--execute=")]
if not asked:  # loads a dump into the database that is named last
    text = sys.stdin.read()
    if "BROKEN" in text:
        sys.exit("ERROR 1064 (42000): You have an error in your SQL syntax")
    for line in text.splitlines():
        name, _, rows = line.partition(" ")
        (data / sys.argv[-1] / name).write_text(rows.replace("FADED", ""))
    sys.exit(0)
(data.parent / "log").open("a").write(asked[0] + chr(10))
for one in asked[0][len("--execute="):].split(";"):
    words = one.split()
    if one == "SHOW DATABASES":
        print(*sorted(path.name for path in data.iterdir()), sep=chr(10))
    elif one == "SELECT @@datadir":
        print(data)
    elif words[0] == "DROP":
        shutil.rmtree(data / words[-1], ignore_errors=True)
    elif words[0] == "CREATE":
        (data / words[-1]).mkdir(exist_ok="EXISTS" in words)
    elif words[0] == "RENAME":
        moves = [move.replace("`", "").split(" TO ") for move in one[len("RENAME TABLE "):].split(", ")]
        places = [[data.joinpath(*side.strip().split(".")) for side in move] for move in moves]
        for old, new in places:
            old.rename(new)
    elif "information_schema" in one:
        there = data / re.search("table_schema='([^']*)'", one)[1]
        tables = sorted(path.name for path in there.iterdir()) if there.exists() else []
        print(f"{{len(tables)}} 1000" if "COUNT" in one else chr(10).join(tables))
    elif words[0] != "GRANT":
        sys.exit("ERROR: " + one)
"""
_DUMP = """#!{python}
import sys
from pathlib import Path
there = Path({data!r}) / sys.argv[-1]
if not there.exists():
    print("mariadb-dump: Got error: 1049: Unknown database", file=sys.stderr)
    sys.exit(2)
for path in sorted(there.iterdir()):
    print(path.name, path.read_text())
    if path.name == "cut":
        sys.exit("mariadb-dump: Error 2013: Lost connection to server during query")
"""


class MariaDB:
    """``log``: statements, one a line. A table `cut` ends its dump; rows `BROKEN` and `FADED` load badly."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data, programs = directory / "mysql", directory / "programs"
        for place in (self.data, programs):
            place.mkdir(parents=True)
        self.log = directory / "log"
        scripts = {
            "mariadb": _MARIADB.format(python=sys.executable, data=str(self.data)),
            "mariadb-dump": _DUMP.format(python=sys.executable, data=str(self.data)),
            # as the user slurm, whom this machine does not have
            "timeout": '#!/bin/sh\nshift 2\nexec "$@"\n',
            "setpriv": '#!/bin/sh\ntest "$1" = --reuid=slurm || exit 9\nshift 3\nexec "$@"\n',
            "systemctl": f'#!/bin/sh\necho "$@" >> {directory}/log\n',
        }
        for name, script in scripts.items():
            (programs / name).write_text(script)
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin")

    def table(self, database: str, name: str, rows: str) -> None:
        (self.data / database).mkdir(exist_ok=True)
        (self.data / database / name).write_text(rows)

    def databases(self) -> dict[str, dict[str, str]]:
        return {
            place.name: {path.name: path.read_text() for path in sorted(place.iterdir())}
            for place in sorted(self.data.iterdir())
        }
