"""Given a site, write what gpuadmin would hand to its playbooks into the site's group_vars."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpuadmin.accounts.desired import variables
from gpuadmin.actions.shared.metrics import keep_secret, metrics_variables, read_metrics_secret
from gpuadmin.ansible.invocation import extra_variables
from gpuadmin.config.load import load_site


def main(directory: str) -> None:
    site = load_site(directory)
    secret = read_metrics_secret(site)
    keep_secret(site, secret)
    wanted = {
        "gpuadmin_site": site.settings.model_dump(mode="json"),
        **variables(site.settings, site.registry.registry.users),
        **metrics_variables(site, secret),
        "gpuadmin_signers": "",
        "gpuadmin_known_hosts": str(site.known_hosts),
    }
    target = Path(directory) / "inventory" / "group_vars" / "all" / "gpuadmin.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(extra_variables(wanted))
    target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
