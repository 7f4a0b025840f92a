"""sshd's settings in effect."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings import ssh

from tests.unit.node.host_settings.conftest import Host


@pytest.mark.parametrize(
    "text",
    [
        "clientaliveinterval 300\nacceptenv LANG\nacceptenv LC_*\n",
        "ClientAliveInterval 300\nAcceptEnv LANG\nAcceptEnv LC_*\n",  # since OpenSSH 10.6
    ],
)
def test_all_keywords_and_the_match_lines(host: Host, text: str) -> None:
    place = host({"etc/ssh/sshd_config": "Match User minji\n"}, {"/usr/sbin/sshd -T": text})
    assert ssh.sshd(place) == {
        "clientaliveinterval": "300", "acceptenv": "LANG\nLC_*", "Match": "Match User minji",
    }  # fmt: skip


def test_without_an_answer_it_is_unknown(host: Host) -> None:
    assert ssh.sshd(host()) == {"sshd": "is not installed"}
    for said in (1, ""):
        with pytest.raises(NodeError):
            ssh.sshd(host(programs={"/usr/sbin/sshd -T": said}))
