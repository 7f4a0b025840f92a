"""What hosts say beside what they did is for people, too: once, with the hosts that say it."""

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
