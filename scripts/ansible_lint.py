"""ansible-lint, without its syntax check, which starts ansible-playbook once for each playbook and role.

`scripts/lint` has ansible-playbook check all of them in two runs: 3 seconds of the processor and not 100. There is no
setting for it. Where another ansible-lint has it otherwise, files are checked twice, and nothing is left out.
"""

import sys

from ansiblelint.__main__ import _run_cli_entrypoint
from ansiblelint.runner import Runner

Runner.skip_ansible_syntax_check = property(lambda _self: True, lambda _self, _value: None)

if __name__ == "__main__":
    sys.exit(_run_cli_entrypoint())
