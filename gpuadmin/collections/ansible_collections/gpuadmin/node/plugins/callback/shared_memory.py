"""gpuadmin.node.shared_memory: Ansible's workers share the memory of the process that they are forked from."""

from __future__ import annotations

import gc
from typing import Any

from ansible.plugins.callback import CallbackBase

from ansible_collections.gpuadmin.node.plugins.plugin_utils.code_cache import belongs_to_takeover, code

DOCUMENTATION = r"""
name: shared_memory
type: aggregate
short_description: Keep the memory that workers share from being copied
version_added: "0.1.0"
description:
  - Python's garbage collector writes to every object that it looks at, so a worker gets a copy of most of the memory
    that it was forked with, some 25 MiB for each host at a time. What is there when a task begins is left out of it.
  - The code for the hosts is read once, before there are workers, and not in each of them.
  - It takes no results and prints nothing.
author:
  - The gpuadmin authors
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible has no types
    """Reads what workers share, and freezes what is in memory when a task begins, right before they are forked."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpuadmin.node.shared_memory"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: Any) -> None:
        code()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        code(belongs_to_takeover(str(task.action)))
        gc.freeze()
