"""A survey's answers, a group's list, and a site that takes applications."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible
from tests.support.mail_server import Server
from tests.support.sites import public_key

DEADLINE = date.today() + timedelta(days=100)

USERS = f"""\
users:
  - {{name: hyejin, uid: 20000, email: hyejin@example.org, keys: ['{public_key("hyejin")}']}}
retired:
  - {{name: old, uid: 20001, removed: 2026-06-30, email: old@example.org}}
"""

FORM = f"""\
타임스탬프,이메일 주소,이름,학번,SSH 공개키,Docker 사용,이용 수칙 동의
2026/11/20 3:04:05 오후 GMT+9,minji@example.org,김민지,20260001,{public_key("minji")},예,동의합니다
2026/11/20 3:05:05 오후 GMT+9,old@example.org,이지호,20260002,{public_key("jiho")},아니요,동의합니다
2026/11/20 3:06:05 오후 GMT+9,yuna@example.org,박유나,20260003,,예,동의합니다
2026/11/20 3:07:05 오후 GMT+9,eve@example.org,이브,20260009,{public_key("eve")},예,동의합니다
"""

GROUP = """\
학번,이메일
20260001,minji@example.org
20260002,old@example.org
20260003,yuna@example.org
20260004,seo@example.org
"""


def prepare(ansible: Ansible, server: Server | None = None, **more: Any) -> Path:
    assert ansible.site is not None
    settings = {
        "name": "test",
        "term": {"name": "2026-2", "deadline": str(DEADLINE)},
        "mail": {
            "host": "127.0.0.1",
            "port": 9 if server is None else server.port,
            "security": "none",
            "sender": "gpu@example.org",
        },
        **more,
    }
    (ansible.site / "gpuadmin.yml").write_text(json.dumps(settings))
    (ansible.site / "users.yml").write_text(USERS)
    ansible.answer = answer("minji", "old")
    return ansible.site


def answer(*names: str, homes: str = "created", nodes: str = "missing") -> RunResult:
    """What the hosts say of people."""
    users = {name: {"status": nodes, "operations": [], "problem": None} for name in names}
    reports = {"homes": {name: {"status": homes} for name in names}, "users": {}}
    return RunResult(
        {
            "storage": HostResult("changed", reports=reports),
            "node1": HostResult("changed", reports={"users": users}),
            "node2": HostResult("unreachable"),
        }
    )
