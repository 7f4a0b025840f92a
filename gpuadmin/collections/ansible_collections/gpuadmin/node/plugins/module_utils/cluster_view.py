"""The cluster as the monitor host sees it: a timer fetches it for everybody on this node (`gpuadmin-me free`, `top`).

The node asks in its own name, with a key of its own that lets nobody into the dashboard; it learns what every person
may see there. What cannot be fetched is left as it was: whoever reads it sees how old it is.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import ssl
import sys
import time
from typing import Any

from gpuadmin.common import tokens
from gpuadmin.common.records.cluster import ClusterNow

from .documents import parse_settings
from .errors import NodeError, in_words
from .files import read_bytes, write_atomic
from .paths import STATE
from .web_links import KEY, SETTINGS, load_key

FILE = "/run/gpuadmin-cluster/now.json"
PATH = "/data/now"
SECONDS = 20
MOST = 16 << 20  # bytes: some 40,000 GPUs


def main(settings: str = SETTINGS, key: str = os.path.join(STATE, KEY), target: str = FILE) -> int:
    """What the unit runs. Exit 0 also where nothing came: a monitor host that is away is no failure of this node."""
    try:
        raw = _fetch(json.loads(read_bytes(settings) or b"{}"), load_key(key))
        _parse(raw)  # guard: what is no answer of the dashboard's replaces no answer
        write_atomic(target, raw, mode=0o644, sync=False)
    except (OSError, ValueError, KeyError, http.client.HTTPException, NodeError) as error:
        print(f"the monitor host did not tell the cluster's state: {in_words(error)}", file=sys.stderr)
    return 0


def _fetch(known: dict[str, Any], key: bytes) -> bytes:
    """Ask the monitor host. Raises OSError, HTTPException, NodeError, and KeyError for settings that name none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the very certificate is compared below
    connection = http.client.HTTPSConnection(known["monitor"], known["port"], timeout=SECONDS, context=context)
    try:
        connection.connect()
        shown = hashlib.sha256(connection.sock.getpeercert(binary_form=True) or b"").hexdigest()
        if shown != known["certificate"]:  # guard: a node shows its key to the monitor host alone
            raise NodeError("it shows another certificate than the dashboard's: gpuadmin provision")
        token = tokens.sign(tokens.view_key(key), tokens.VIEW, known["node"], known["node"], int(time.time()))
        connection.request("GET", PATH, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise NodeError(f"it answers {answer.status}")
        raw = answer.read(MOST + 1)
        if len(raw) > MOST:
            raise NodeError("its answer is too large")
        return raw
    finally:
        connection.close()


def load(path: str = FILE) -> ClusterNow | None:
    """Return the cluster as it was fetched last; None: it never was. Raises NodeError."""
    raw = read_bytes(path)
    return None if raw is None else _parse(raw)


def _parse(raw: bytes) -> ClusterNow:
    try:
        return parse_settings(ClusterNow, json.loads(raw), "the cluster's state")
    except (ValueError, RecursionError):
        raise NodeError("the cluster's state is no JSON") from None
