"""A link to the dashboard, or through it to a notebook: asked of the node's service, which knows from the kernel who
asks."""

from __future__ import annotations

import json
import os
import pwd
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from gpuadmin.common.tokens import LINK_SECONDS

from . import peercred_service
from .bounded import read_small
from .errors import NodeError, in_words
from .paths import STATE

SOCKET = "/run/gpuadmin-web-link.sock"
SETTINGS = os.path.join(STATE, "web-links.json")
SECONDS = 60.0
TEXTS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "none": "This cluster has no dashboard. Ask the admins.",
        "silent": "The node does not answer. Try again; if that does not help, tell your admins.",
        "once": "The link works once, within {minutes} minutes, and for you alone: do not pass it on.",
        "open": "Open it in your browser, also on your phone:",
        "forward": "If your browser cannot reach it, run this on your own machine, then open the second link there:",
        "only": "Run this on your own machine, then open the link there:",
        "certificate": "Your browser may warn of the certificate: ask your admins which one is right.",
    },
    "ko": {
        "none": "이 클러스터에는 대시보드가 없습니다. 관리자에게 문의해 주세요.",
        "silent": "노드가 응답하지 않습니다. 다시 실행해 보고, 계속되면 관리자에게 알려 주세요.",
        "once": "링크는 {minutes}분 동안 한 번만, 본인만 쓸 수 있습니다. 다른 사람에게 전달하지 마세요.",
        "open": "브라우저에서 여세요. 휴대전화에서도 됩니다.",
        "forward": "브라우저에서 열리지 않으면, 본인 컴퓨터에서 아래 명령을 실행하고 두 번째 링크를 여세요.",
        "only": "본인 컴퓨터에서 아래 명령을 실행하고 링크를 여세요.",
        "certificate": "브라우저에 인증서 경고가 나올 수 있습니다. 어떤 인증서인지는 관리자에게 확인해 주세요.",
    },
}
#: Reasons why the node's service signs no link (web_links.py), by its word.
REFUSALS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "no-accounts": "Accounts are not set up on this node. Ask the admins.",
        "stranger": "You have no account on this cluster. Admins run gpuadmin dashboard on the controller.",
        "not-here": "Your account is not set up on this node. Ask the admins.",
        "no-member": "You are not in the group of this cluster's people. Ask the admins.",
        "locked": "Your account is locked. Ask the admins.",
        "expired": "Your account has expired. Ask the admins.",
        "not-ours": "Your account was not made by gpuadmin. Ask the admins.",
        "busy": "You have asked already; wait for the answer.",
        "failed": "No link could be signed. Ask the admins.",
    },
    "ko": {
        "no-accounts": "이 노드에는 계정이 설정되어 있지 않습니다. 관리자에게 문의해 주세요.",
        "stranger": "이 클러스터의 계정이 아닙니다. 관리자는 컨트롤러에서 gpuadmin dashboard를 실행하세요.",
        "not-here": "이 노드에 계정이 설정되어 있지 않습니다. 관리자에게 문의해 주세요.",
        "no-member": "이 클러스터의 사용자 그룹에 속해 있지 않습니다. 관리자에게 문의해 주세요.",
        "locked": "계정이 잠겨 있습니다. 관리자에게 문의해 주세요.",
        "expired": "계정이 만료되었습니다. 관리자에게 문의해 주세요.",
        "not-ours": "gpuadmin으로 만든 계정이 아닙니다. 관리자에게 문의해 주세요.",
        "busy": "이미 요청했습니다. 답을 기다려 주세요.",
        "failed": "링크를 만들지 못했습니다. 관리자에게 문의해 주세요.",
    },
}


@dataclass(frozen=True)
class Reach:
    """The way to the dashboard from a person's own machine. ``forward``: what ssh's -L is given; ``through``: the
    host that it goes through; ``direct``: whether a browser may reach it without that.
    """

    forward: str
    through: str
    direct: bool


def main(language: str, settings: str = SETTINGS, path: str = SOCKET, *, notebook: str = "", port: int = 0) -> int:
    """Print a link. ``notebook``: NODE/JOB of the one that it leads to, at that port of the monitor host. Exit 0; 1 if
    there is none, which is said. Raises NodeError."""
    texts = TEXTS[language]
    if not os.path.exists(settings) or not os.path.exists(path):
        print(texts["none"], file=sys.stderr)
        return 1
    reach = load(settings)
    found = peercred_service.ask(path, SECONDS)
    if found is None:
        print(texts["silent"], file=sys.stderr)
        return 1
    status, link = found
    if status != 0:
        print(REFUSALS[language].get(link, link), file=sys.stderr)
        return 1
    link += f"&notebook={notebook}" if notebook else ""
    print("\n".join(lines(link, pwd.getpwuid(os.getuid()).pw_name, reach, texts, port)))
    return 0


def load(path: str) -> Reach:
    """Read what the site wrote for everybody. Raises NodeError."""
    try:
        known = json.loads(read_small(path))
        return Reach(str(known["forward"]), str(known["through"]), bool(known["direct"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NodeError(f"{path} cannot be read ({in_words(error)}): tell your admins") from None


def lines(link: str, name: str, reach: Reach, texts: Mapping[str, str], port: int = 0) -> list[str]:
    """The lines to print for the person of that login name. ``port``: one more that is forwarded."""
    parts, (own, _, end) = urlsplit(link), reach.forward.partition(":")
    more = f" -L {port}:{end.rpartition(':')[0]}:{port}" if port else ""
    forward = [
        f"    ssh -N -L {reach.forward}{more} {name}@{reach.through}",
        f"    https://localhost:{own}{parts.path}?{parts.query}",
    ]
    found = [texts["once"].format(minutes=LINK_SECONDS // 60)]
    if reach.direct:
        found += [texts["open"], f"    {link}", texts["forward"], *forward]
    else:
        found += [texts["only"], *forward]
    return [*found, texts["certificate"]]
