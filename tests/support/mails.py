"""Letters, and sites that send them."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from tests.support.fake_ansible import Ansible
from tests.support.mail_server import Server


def prepare(ansible: Ansible, server: Server | None, **mail: Any) -> Path:
    assert ansible.site is not None
    port = 9 if server is None else server.port
    settings = {
        "name": "test",
        "term": {"name": "2026-2", "deadline": str(deadline())},
        "mail": {"host": "127.0.0.1", "port": port, "security": "none", "sender": "gpu@example.org", **mail},
    }
    (ansible.site / "gpuadmin.yml").write_text(json.dumps(settings))
    (ansible.site / "users.yml").write_text(USERS)
    return ansible.site


USERS = """\
users:
  - {name: minji, uid: 20000, email: minji@example.org}
  - {name: jiho, uid: 20001, email: jiho@example.org}
  - {name: yuna, uid: 20002}
"""


def deadline() -> date:
    """Of each test: a whole run may cross midnight."""
    return date.today() + timedelta(days=5)
