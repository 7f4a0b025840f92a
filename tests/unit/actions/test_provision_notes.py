"""What hosts say beside what they did is for people, too: once, with the hosts that say it."""

import pytest

from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli, ansible

__all__ = ["ansible"]


def test_notes_of_hosts_are_printed_once(ansible: Ansible, cli: Cli) -> None:
    kept = "/data is still mounted from nas2:/data, which somebody uses; the next run tries again"
    hosts = {name: HostResult("ok", reports={"problems": [kept]}) for name in ("node1", "node2")}
    ansible.answer = RunResult({"storage1": HostResult("ok", reports={"problems": ["/srv/x: kept"]}), **hosts})
    code, out, err = cli("provision", "--yes")
    assert code == 0, err
    text = " ".join((out + err).split())
    assert text.count(f"Note: node1, node2: {kept}") == 1, text
    assert text.count("Note: storage1: /srv/x: kept") == 1


@pytest.mark.holds("a README beside the checks, which fails as one, does not close all nodes")
def test_what_is_beside_the_sites_own_checks_is_not_run(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    checks = ansible.site / "health.d"
    checks.mkdir()
    for name, mode in (("10-fan", 0o755), ("README", 0o644)):
        (checks / name).touch(mode=mode)
    code, _, err = cli("provision", "--yes")
    assert (code != 0, "health.d: not executable: README" in err) == (True, True), err
    assert ansible.asked == []
    (checks / "README").unlink()
    assert cli("provision", "--yes")[0] == 0
    assert cli("drift")[0] == 0
    told = [one.variables["gpuadmin_health_checks"] for one in ansible.asked if one.playbook in ("provision", "drift")]
    assert set(told) == {str(checks)}, "drift would have them, too"


def test_what_check_finds_is_seen_before_hosts_are_set_up(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    settings = ansible.site / "gpuadmin.yml"
    settings.write_text(settings.read_text(encoding="utf-8") + "images: {server: node1}\n", encoding="utf-8")
    _, out, err = cli("provision", "--check")
    wrong = "Note: gpuadmin check: gpuadmin.yml: images.server: 'node1' is not a host of group storage"
    assert wrong in " ".join((out + err).split())
    assert err.count("gpuadmin check:") == 1, "what is no mistake is left to check"
