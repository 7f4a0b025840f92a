"""ansible-lint, without what it would do many times over: 17 seconds of the processor and not 150.

Its syntax check starts ansible-playbook once for each playbook and role, and again for each playbook that another one
imports. `scripts/lint` has ansible-playbook check all of them in two runs. What kind of file a path is, it would find
out eight times for each. There are no settings for it. Where another ansible-lint has it otherwise, files are checked
twice, and nothing is left out.
"""

import functools
import sys

import ansiblelint.file_utils
from ansible_compat.runtime import Runtime
from ansiblelint.__main__ import _run_cli_entrypoint
from ansiblelint.runner import Runner

Runner.skip_ansible_syntax_check = property(lambda _self: True, lambda _self, _value: None)
Runtime.has_playbook = lambda _self, _playbook, **_more: True
ansiblelint.file_utils.kind_from_path = functools.cache(ansiblelint.file_utils.kind_from_path)

if __name__ == "__main__":
    sys.exit(_run_cli_entrypoint())
