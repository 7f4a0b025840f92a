"""What the hosts are told about measurements: whom Prometheus asks, certificates, and where alerts go."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from gpuadmin.actions.shared.dashboard import dashboard_variables
from gpuadmin.config import queue
from gpuadmin.config.load import Site
from gpuadmin.config.skeleton import keep_out_of_git
from gpuadmin.config.yamlfile import write_new
from gpuadmin.desired.nodes import find_askers, find_bmc
from gpuadmin.errors import ConfigError
from gpuadmin.mail.smtp import find_server, read_password
from gpuadmin.monitoring.certificates import JOURNALS, SECRET_BYTES, authority, exporter, scraper, sender, slurm_key
from gpuadmin.reading import expanded, read_secret, read_text

SECRET = "metrics_secret"
SENSORS_PASSWORD = "GPUADMIN_BMC_SENSORS_PASSWORD"
#: The groups whose hosts are measured; a host's kind is the first of them that it is in.
MEASURED = ("gpu", "storage", "backup", "monitor", "slurm")


def read_metrics_secret(site: Site) -> bytes:
    """The site's secret for certificates; a new one, which is not written, if there is none. Raises ConfigError."""
    path = site.directory / SECRET
    text = read_text(path).strip()
    if not text:
        return secrets.token_bytes(SECRET_BYTES)
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"{path}: others can read it", hint=f"chmod 600 {path}")
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != SECRET_BYTES:
        raise ConfigError(
            f"{path}: must hold {SECRET_BYTES} bytes in hexadecimal",
            hint="restore it; or delete it, and provision gives every host a new certificate",
        )
    return found


def keep_secret(site: Site, secret: bytes) -> None:
    """Write the site's secret if there is none, for its owner alone, and keep it from version control."""
    path = site.directory / SECRET
    if read_text(path).strip():  # guard: a secret that is there is never replaced
        return
    keep_out_of_git(site.directory, SECRET)  # first: there is no moment in which it could be added by mistake
    path.unlink(missing_ok=True)
    write_new(path, f"{secret.hex()}\n".encode())


def metrics_variables(site: Site, secret: bytes) -> dict[str, Any]:
    """What provision and drift give to playbooks; nothing where no host is in the group monitor. Raises ConfigError."""
    inventory = site.inventory
    if not inventory.group("monitor"):
        return {}
    hosts = inventory.group(*MEASURED)
    asking = scraper(secret)
    identities = {host.name: exporter(secret, host.name, host.cluster_address) for host in hosts}
    senders = {host.name: sender(secret, host.name) for host in hosts}
    targets = [
        {
            "name": host.name,
            "address": host.cluster_address,
            "kind": next(group for group in MEASURED if group in host.groups),
        }
        for host in hosts
    ]
    return {
        "gpuadmin_metrics": {
            "targets": targets,
            "authority": authority(secret),
            "scraper": {"key": asking.key, "certificate": asking.certificate},
            "dashboard": dashboard_variables(site, secret),
            "hosts": {name: {"key": one.key, "certificate": one.certificate} for name, one in identities.items()},
            "journals_authority": authority(secret, JOURNALS),
            "senders": {name: {"key": one.key, "certificate": one.certificate} for name, one in senders.items()},
            "sensors": _sensors(site),
            **_mail(site),
        }
    }


def _sensors(site: Site) -> list[dict[str, Any]]:
    """The BMCs that the monitor host asks what they measure. Raises ConfigError."""
    settings, found = site.settings, []
    monitor, askers = site.inventory.group("monitor")[0], find_askers(settings, site.inventory.hosts)
    for host in site.inventory.hosts:
        bmc = find_bmc(settings, host)
        if bmc is None or bmc.sensors is None or bmc.kind == "wol":
            continue
        address = urlsplit(f"//{bmc.address}").hostname or ""
        # guard: a BMC's password goes to no monitor host that is a node, or that asks no BMCs
        if monitor.name not in askers:
            raise ConfigError(
                f"bmc.sensors: {monitor.name} of the group monitor asks no BMCs: it is a node, or not bmc.via",
                hint="put a host into the group monitor that may have this password, or name it in bmc.via",
            )
        # guard: a BMC's password goes to addresses of BMCs alone, and a filter of systemd's knows no names
        if not queue.is_address(address):
            raise ConfigError(
                f"{host.name}: bmc.address {bmc.address}: bmc.sensors needs its IP address", hint="write it"
            )
        setting = f"{host.name}: bmc.sensors.password_file"
        password = read_secret(SENSORS_PASSWORD, bmc.sensors.password_file, setting)
        if password is None:
            raise ConfigError(f"no password for {bmc.sensors.user}", hint=f"set {setting}, or {SENSORS_PASSWORD}")
        target = bmc.address if bmc.kind == "ipmi" else address  # a port is the one of what switches it
        given = {"name": host.name, "place": host.place, "target": target}
        given |= {"address": address, "password": password}
        found.append(given | bmc.sensors.model_dump(include={"user", "workarounds"}))
    return found


def slurm_variables(site: Site, secret: bytes) -> dict[str, Any]:
    """The key of Slurm's daemons, and how people are told of their jobs; nothing where no host is in the group slurm,
    or gpuadmin.yml has no section slurm."""
    section, mail = site.settings.slurm, site.settings.mail
    if section is None or not queue.there(site.settings, site.inventory.hosts):
        return {}
    sends = mail is not None and mail.directory is None and section.mail
    head = {} if mail is None else {"sender": mail.sender, "reply_to": mail.reply_to}
    given = {
        "kinds": section.mail,
        "server": asdict(find_server(mail)) if mail is not None and sends else None,
        "head": {"name": site.settings.name, **head} if sends else None,
        "webhook": section.webhook or "",
    }
    return {"gpuadmin_slurm_key": slurm_key(secret), "gpuadmin_slurm_mail": given}


def _mail(site: Site) -> dict[str, Any]:
    """How Alertmanager sends mail: as gpuadmin itself does, with the same server, login and password."""
    mail = site.settings.mail
    if mail is None or not site.settings.metrics.mail_to:
        return {"mail": {}, "password": "", "ca": ""}
    host, port = mail.server
    ca = "" if mail.ca_file is None else read_text(expanded(mail.ca_file))
    if mail.ca_file is not None and not ca:
        raise ConfigError(f"mail.ca_file: {mail.ca_file} is missing or empty", hint="correct it in gpuadmin.yml")
    given = {
        "smarthost": f"{host}:{port}",
        "starttls": mail.security == "starttls",
        "user": mail.user,
        "sender": mail.sender,
    }
    return {"mail": given, "password": read_password(mail) or "", "ca": ca}
