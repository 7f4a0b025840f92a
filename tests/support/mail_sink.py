"""A mail server on storage1 of the lab, and what it took in."""

from __future__ import annotations

import email.message
import email.policy
import io
import json
import tarfile

import aiosmtpd
import attr
import public

from tests.support import fake_driver
from tests.support.lab_cluster import REPOSITORY, Cluster


class Sink:
    """`to`: whom alone it takes mail for; without it, anybody."""

    def __init__(self, cluster: Cluster, to: str = "") -> None:
        self._cluster, self._to = cluster, to
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            for package in (aiosmtpd, attr, public):
                (place,) = package.__path__
                tar.add(place, package.__name__, filter=_no_cache)
            tar.add(REPOSITORY / "tests/support/smtp_server.py", "smtp_server.py")
        fake_driver.put(cluster, "storage1", "/var/tmp/sink.tar.gz", out.getvalue())
        options = json.dumps({"accepted": "/var/tmp/sink/mails", "port": 2525})
        cluster.admin(
            "storage1",
            "mkdir -p /var/tmp/sink; cd /var/tmp/sink; tar -xzf ../sink.tar.gz --no-same-owner; touch mails; "
            f"echo {options!r} > options.json; "
            "systemd-run --quiet --unit sink --working-directory /var/tmp/sink python3 smtp_server.py options.json",
        )

    def mails(self) -> list[tuple[str, str]]:
        """Subject and text of each mail, in the order in which they came."""
        found = []
        for line in self._cluster.admin("storage1", "cat /var/tmp/sink/mails").splitlines():
            taken = json.loads(line)
            assert not self._to or taken["to"] == [self._to]
            message = email.message_from_string(taken["text"], policy=email.policy.default)
            body = message.get_body(("plain",))
            found.append((str(message["subject"]), "" if body is None else body.get_content().replace("\r\n", "\n")))
        return found

    def about(self, words: str) -> list[str]:
        """The texts of the mails that have these words in their subject."""
        return [text for subject, text in self.mails() if words in subject]


def _no_cache(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name or "/test" in member.name else member
