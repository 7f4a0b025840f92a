"""The program `gpuadmin-me`, and its `check`, `disk`, `free`, `limits`, `top` and `web`. It runs as who calls it."""

from __future__ import annotations

import json
import os
import pwd
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from gpuadmin.common.text import language as of_locale

from .. import web_reach
from ..bounded import read_small
from ..diagnosis.subject import Subject
from ..errors import NodeError, in_words
from ..paths import STATE
from . import check, cluster, disk, limits, overview

SETTINGS = os.path.join(STATE, "me.json")
KEYS = ("homes", "docker", "servers", "gpus", "gpu_model", "nodes")  # roles/node_state/vars/main.yml
USAGE = {
    "en": """usage: gpuadmin-me [check | disk | free | limits | top | web] [--language ko|en]

gpuadmin-me          your nodes, home, Docker, account and GPUs
gpuadmin-me check    what does not work for you on this node, and what to do
gpuadmin-me disk     what your files take, and the largest of your directories
gpuadmin-me free     which GPUs of all nodes are free, by type
gpuadmin-me limits   how much you use of what you may: processors, memory, home
gpuadmin-me top      all GPUs of all nodes: use, memory, and who has them
gpuadmin-me web      a link to the dashboard: who uses which GPU. It works once, for some minutes""",
    "ko": """사용법: gpuadmin-me [check | disk | free | limits | top | web] [--language ko|en]

gpuadmin-me          노드, 홈, Docker, 계정, GPU 상태를 보여 줍니다
gpuadmin-me check    이 노드에서 안 되는 것의 원인과 해결 방법을 알려 줍니다
gpuadmin-me disk     본인 파일의 용량과 가장 큰 디렉터리를 보여 줍니다
gpuadmin-me free     모든 노드의 비어 있는 GPU를 종류별로 보여 줍니다
gpuadmin-me limits   쓸 수 있는 양 중 지금 쓰는 양을 보여 줍니다(CPU, 메모리, 홈)
gpuadmin-me top      모든 노드의 GPU: 사용률, 메모리, 사용자를 보여 줍니다
gpuadmin-me web      대시보드 링크를 출력합니다. 몇 분 동안 한 번만 쓸 수 있습니다""",
}
WORDS = ("check", "disk", "free", "limits", "top", "web")


def main(arguments: Sequence[str], settings: str = SETTINGS) -> int:
    """Run the program. Exit 0; 1 where a check found a cause that is serious; 2 for what cannot be asked."""
    try:
        asked, language = parse(arguments, os.environ)
    except NodeError as error:
        print(f"{error}\n{USAGE[of_locale(os.environ)]}", file=sys.stderr)
        return 2
    if asked is None:
        print(USAGE[language])
        return 0
    if os.geteuid() == 0:  # guard: root looks at nobody's home as if it were theirs
        print("root: gpuadmin diagnose and gpuadmin dashboard, on the controller", file=sys.stderr)
        return 2
    if asked == "web":
        return web_reach.main(language)
    if asked in ("free", "top"):
        code, found_lines = cluster.run(asked, language)
        print("\n".join(found_lines), file=sys.stderr if code else sys.stdout)
        return code
    known = load(settings)
    subject = whose(known)
    host = socket.gethostname()
    if asked == "disk":
        print("\n".join(disk.lines(subject, disk.disk(subject), host, language)))
        return 0
    if asked == "limits":
        print("\n".join(limits.lines(subject, limits.limits(subject), host, language)))
        return 0
    if asked == "check":
        found, looked = check.find_causes(subject)
        print("\n".join(check.lines(found, looked, host, language, check.find_queued_jobs(subject, found))))
        return 1 if any(check.is_serious(one) for one in found) else 0
    print("\n".join(overview.lines(subject, overview.overview(subject), host, known["nodes"], language)))
    return 0


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[str | None, str]:
    """Given arguments, return one of WORDS or nothing (None: only help is asked for), and the language.

    Raises NodeError.
    """
    language, asked, rest = of_locale(environment), "", list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            return None, language
        if word in WORDS and asked in ("", word):
            asked = word
        elif word.startswith("--language"):
            value = word[11:] if word.startswith("--language=") else rest.pop(0) if rest else ""
            if value not in check.LANGUAGES:
                raise NodeError("--language is ko or en")
            language = value
        else:
            raise NodeError(f"{word!r} is not known")
    return asked, language


def load(path: str) -> dict[str, Any]:
    """Read the site's settings for everybody: places of homes and of Docker's data, nodes. Raises NodeError."""
    try:
        found = json.loads(read_small(path))
    except (OSError, ValueError) as error:
        raise NodeError(f"{path} cannot be read ({in_words(error)}): tell your admins") from None
    lacks = [key for key in KEYS if not isinstance(found, dict) or key not in found]
    if lacks:
        raise NodeError(f"{path} does not say {', '.join(lacks)}: tell your admins")
    return dict(found)


def whose(known: Mapping[str, Any]) -> Subject:
    """The person who runs this, as the kernel knows them; not as their environment says."""
    uid = os.getuid()  # guard: who asks for themselves is who the kernel says -> int(os.environ.get('SUDO_UID', '0'))
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        raise NodeError(f"this host does not know uid {uid}: tell your admins") from None
    return Subject(
        name=name,
        uid=uid,
        homes=known["homes"],
        docker=known["docker"],
        servers=tuple(known["servers"]),
        gpus=known["gpus"],
        gpu_model=known["gpu_model"],
        own=True,
    )
