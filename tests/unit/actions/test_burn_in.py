"""`gpuadmin burn-in`: which nodes, and that it asks."""

import pytest

from tests.support.fake_ansible import Ansible, Cli, ansible

__all__ = ["ansible"]


def test_nodes_are_burnt_in(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    settings = ansible.site / "gpuadmin.yml"
    code, out, _ = cli("burn-in", "node1", "--check")
    assert (code, "runs what DCGM brings, for a day at most" in " ".join(out.split())) == (0, True)
    health = "{burn_in: [gpu_burn, '600']}"
    settings.write_text(f"{settings.read_text()}\ngpus: {{health: {health}}}\n")
    code, out, _ = cli("burn-in", "node1", "--yes")
    assert (code, "runs gpu_burn 600, for a day at most" in " ".join(out.split())) == (0, True)
    (_, done) = ansible.asked
    assert (done.playbook, done.limit, done.check) == ("burn-in", "node1", False)
    assert "@" in done.variables["gpuadmin_burn_in"]["by"]
    code, _, err = cli("burn-in", "node1", "storage1", "--yes")
    assert (code, "storage1: not in the group gpu" in err) == (2, True)
    assert len(ansible.asked) == 2


@pytest.mark.holds("a node is burnt in once that is confirmed")
def test_nothing_is_burnt_in_that_was_not_confirmed(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: False)
    code, _, err = cli("burn-in", "node1")
    assert (code != 0, "not confirmed" in err, ansible.asked) == (True, True, [])
