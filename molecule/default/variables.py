"""Given a site, write what gpuadmin would hand to its playbooks into the site's group_vars."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpuadmin.accounts.desired import variables
from gpuadmin.ansible.invocation import unsafe
from gpuadmin.config.load import load_site


def main(directory: str) -> None:
    site = load_site(directory)
    wanted = {
        "gpuadmin_site": site.settings.model_dump(mode="json"),
        **variables(site.registry, site.settings, site.registry.registry.users),
        "gpuadmin_signers": "",
        "gpuadmin_known_hosts": str(site.known_hosts),
    }
    target = Path(directory) / "inventory" / "group_vars" / "all" / "gpuadmin.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({name: unsafe(value) for name, value in wanted.items()}, default=str)
    target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
