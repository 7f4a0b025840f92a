"""What the monitor host and the nodes are told about the dashboard: its names, its certificate, and who signs links."""

from __future__ import annotations

import ipaddress
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.hashes import SHA256

from gpuadmin.actions.shared.pages import write_guide
from gpuadmin.common import tokens
from gpuadmin.common.pressed import VERBS
from gpuadmin.config import queue
from gpuadmin.config.inventory import Host
from gpuadmin.config.load import Site
from gpuadmin.config.queue import has_notebooks
from gpuadmin.errors import ConfigError
from gpuadmin.monitoring.certificates import Identity, authority, buttons, dashboard, web_authority
from gpuadmin.pages.guide import RULES
from gpuadmin.pages.render import LANGUAGES, fragment
from gpuadmin.reading import expanded, read_text

_LOOPBACK = ("localhost", "127.0.0.1")


def find_dashboard_address(site: Site) -> str:
    """Where links lead: HTTPS, the first of the site's names for it (or the monitor host's address), the port."""
    given, (monitor, *_) = site.settings.metrics.dashboard, site.inventory.group("monitor")
    return f"https://{_bracketed((given.names or [monitor.cluster_address])[0])}:{given.port}"


def dashboard_variables(site: Site, secret: bytes) -> dict[str, Any]:
    """What provision and drift give to the roles dashboard and web_link; nothing where there is no dashboard. Raises
    ConfigError for a certificate of the site's own that cannot be used.
    """
    given, monitors = site.settings.metrics.dashboard, site.inventory.group("monitor")
    if not monitors or not given.enabled:
        return {}
    own = tokens.dashboard_secret(secret)
    hosts = _names(site, monitors[0])
    identity = _own_certificate(site) or dashboard(secret, [*hosts, *_LOOPBACK])
    nodes = site.inventory.group("gpu")
    # where nodes themselves ask, if they can, and the very certificate that they are shown
    first = x509.load_pem_x509_certificates(identity.certificate.encode())[0]
    asked = {"monitor": monitors[0].cluster_address, "port": given.port}
    view = {**asked, "certificate": first.fingerprint(SHA256()).hex()} if given.listen == "all" else {}
    return {
        "secret": own.hex(),
        "proxy_secret": "" if given.proxy is None else proxy_secret(own),
        "certificate": identity.certificate,
        "key": identity.key,
        "authority": web_authority(secret) if given.certificate is None else "",
        "settings": _settings(site, hosts),
        **_find_door(site, secret),
        "links": {node.name: tokens.signing_key(own, tokens.LINK, node.name).hex() for node in nodes},
        "ways": {node.name: _way(site, node, monitors[0]) | view for node in nodes},
    }


def _find_door(site: Site, secret: bytes) -> dict[str, str]:
    """What the dashboard shows where its buttons ask the queue, and who has signed what it is shown there."""
    if not _offered(site):
        return {}
    asking = buttons(secret)
    return {"buttons": f"{asking.certificate}{asking.key}", "buttons_authority": authority(secret)}


def _offered(site: Site) -> list[str]:
    """The buttons that the pages of a site have; none where people have no accounts on the queue's host."""
    section = site.settings.slurm
    if not site.settings.metrics.dashboard.wants_buttons or not queue.saved(site.settings, site.inventory.hosts):
        return []
    assert section is not None
    booking = section.book is not None or any(one.book for one in section.groups)
    off = {"extend"} if section.extend == "never" else set()
    return [one for one in VERBS if one not in (off if booking else off | {"book", "cancel"})]


def proxy_secret(own: bytes) -> str:
    """Given the dashboard's secret, return what its reverse proxy shows in the header X-Gpuadmin-Proxy-Secret."""
    return tokens.derived(own, "proxy").hex()


def _settings(site: Site, hosts: list[str]) -> dict[str, Any]:
    metrics = site.settings.metrics
    given, term = metrics.dashboard, site.settings.term
    languages = list(LANGUAGES if site.settings.mail is None else site.settings.mail.languages)
    nodes = site.inventory.group("gpu")
    # not what list-gpus has found: then each of its runs would be a drift
    rules = [fragment(write_guide(site, one, ()), RULES[one]) for one in languages] if nodes else []
    return {
        "cluster": site.settings.name,
        "nodes": [host.name for host in nodes],
        "languages": languages,
        "rules": rules,
        "idle_hours": metrics.idle_hours,
        "idle_exempt": list(metrics.idle_exempt),
        "admins": ["root", site.settings.admin.user, *(one.name for one in site.settings.admins or ())],
        "buttons": _offered(site),
        "term": [term.name, str(term.begin), str(term.deadline)] if term is not None and term.begin is not None else [],
        "price": str(metrics.price_per_kwh or ""),
        "currency": metrics.currency,
        "queue_host": next((host.cluster_address for host in site.inventory.group("slurm")), ""),
        "port": given.port,
        "listen": given.listen,
        "notebooks": _notebooks(site),
        "sign_in": {
            "prometheus": metrics.port,
            "hosts": hosts,
            "proxy": None if given.proxy is None else given.proxy.model_dump(mode="json"),
        },
    }


def _notebooks(site: Site) -> int:
    """The port at which notebooks are opened; 0: there are none."""
    section, hosts = site.settings.notebooks, site.inventory.hosts
    found = section is not None and any(has_notebooks(site.settings, hosts, one) for one in hosts)
    return section.port if section is not None and found else 0


def _way(site: Site, node: Host, monitor: Host) -> dict[str, Any]:
    """How somebody who logs in to a node reaches the dashboard from their own machine."""
    given = site.settings.metrics.dashboard
    direct = given.listen == "all"
    end = _bracketed(monitor.cluster_address) if direct else "127.0.0.1"
    return {
        "node": node.name,
        "address": find_dashboard_address(site),
        "forward": f"{given.port}:{end}:{given.port}",
        "through": node.cluster_address if direct else monitor.cluster_address,
        "direct": direct,
    }


def _names(site: Site, monitor: Host) -> list[str]:
    """The names under which the dashboard is asked, the one that links have first."""
    given = site.settings.metrics.dashboard.names
    return list(dict.fromkeys([*given, monitor.cluster_address, monitor.address, monitor.name]))


def _own_certificate(site: Site) -> Identity | None:
    given = site.settings.metrics.dashboard
    if given.certificate is None or given.key is None:
        return None
    certificate, key = expanded(given.certificate), expanded(given.key)
    where = "metrics.dashboard"
    texts = read_text(certificate), read_text(key)
    for name, path, text in (("certificate", certificate, texts[0]), ("key", key, texts[1])):
        if not text:
            raise ConfigError(f"{where}.{name}: {path} is missing or empty", hint="correct it in gpuadmin.yml")
    if key.stat().st_mode & 0o077:  # guard: a key of a certificate that others can read
        raise ConfigError(f"{where}.key: {key}: others can read it", hint=f"chmod 600 {key}")
    try:
        public = x509.load_pem_x509_certificates(texts[0].encode())[0].public_key()
    except ValueError:
        raise ConfigError(f"{where}.certificate: {certificate} holds no certificate in PEM") from None
    try:
        ours = serialization.load_pem_private_key(texts[1].encode(), None).public_key()
    except (ValueError, TypeError):
        raise ConfigError(
            f"{where}.key: {key} holds no private key in PEM without a password",
            hint="openssl pkey removes a password; keep the file where you alone can read it",
        ) from None
    if _bytes(public) != _bytes(ours):  # guard: a certificate and a key that do not belong together
        raise ConfigError(
            f"{where}.key: {key} is not the key of {certificate}", hint="give the pair that belongs together"
        )
    return Identity(texts[1], texts[0])


def _bytes(key: Any) -> bytes:
    found: bytes = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return found


def _bracketed(name: str) -> str:
    try:
        return f"[{name}]" if ipaddress.ip_address(name).version == 6 else name
    except ValueError:
        return name
