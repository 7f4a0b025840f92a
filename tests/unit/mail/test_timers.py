"""Verbs that mail are one machine's: with two ledgers people are mailed twice."""

from pathlib import Path

import pytest

from gpuadmin.actions.shared import mails
from gpuadmin.actions.shared.mails import Post
from gpuadmin.config.load import load_site
from gpuadmin.errors import RefusedError
from gpuadmin.options import MailOptions, Options
from gpuadmin.session import opened
from tests.support.sites import make_site


@pytest.mark.holds("nobody is mailed from two machines")
def test_a_verb_that_mails_is_the_monitor_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mail = {"host": "h", "sender": "a@example.org"}
    settings = {"timers": {"verbs": ["notify"]}, "mail": mail, "runs": {"shared": False}}
    site = make_site(tmp_path, settings=settings)
    assert load_site(str(site)).settings.timers is not None
    with opened("notify", Options(site=str(site))) as session, pytest.raises(RefusedError, match="known there alone"):
        Post.of(session, MailOptions())
    with opened("notify", Options(site=str(site), check=True)) as session:
        assert Post.of(session, MailOptions())
    with opened("announce", Options(site=str(site))) as session:
        assert Post.of(session, MailOptions())
    monkeypatch.setattr(mails, "who", lambda: "gpuadmin-timers@monitor1")
    with opened("notify", Options(site=str(site))) as session:
        assert Post.of(session, MailOptions())
