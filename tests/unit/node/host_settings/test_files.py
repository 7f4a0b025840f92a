"""Settings that are files."""

from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings import files

from tests.unit.node.host_settings.conftest import Host


def test_limits(host: Host) -> None:
    place = host(
        {
            "etc/security/limits.conf": "# none\n* soft nofile 1024\n",
            "etc/security/limits.d/10-x.conf": "*  soft nofile\t65536\n@users - memlock unlimited\nodd line\n",
            "etc/security/limits.d/readme": "* hard nofile 1\n",
        },
        {"systemctl show": "Version=257\nDefaultLimitNOFILE=524288\nDefaultLimitNPROC=7\nDefaultTimeoutStopUSec=90\n"},
    )
    assert files.limits(place) == {
        "* soft nofile": "65536",
        "@users - memlock": "unlimited",
        "/etc/security/limits.d/10-x.conf: odd line": "is there",
        "systemd DefaultLimitNOFILE": "524288",
        "systemd DefaultTimeoutStopUSec": "90",
    }


def test_pam_nss_cron_sudo_and_repositories(host: Host) -> None:
    place = host(
        {
            "etc/pam.d/sshd": "auth  required pam_x.so # x\n#no\nsession optional pam_y.so\n",
            "etc/nsswitch.conf": "passwd: files  systemd\n",
            "etc/crontab": "5 * * * * root run\n",
            "etc/cron.daily/x": "#!/bin/sh\ntrue\n",
            "etc/sudoers": "# x\nDefaults a,\\\n  b\n@includedir /etc/sudoers.d\n",
            "etc/sudoers-rs": "Defaults c\n",
            "etc/sudoers.d/x": "minji ALL=(ALL) ALL\n",
            "etc/sudoers.d/x.bak": "minji ALL=(ALL) ALL\n",
            "etc/apt/sources.list": "deb http://x y\n",
        }
    )
    assert files.pam(place) == {"/etc/pam.d/sshd": "auth required pam_x.so # x\nsession optional pam_y.so"}
    assert files.nss(place) == {"passwd": "files systemd"}
    assert files.cron(place) == {"/etc/crontab": "5 * * * * root run", "/etc/cron.daily/x": "sha256 9ab8fabc8c72bfa0"}
    assert files.sudoers(place) == {
        "/etc/sudoers": "Defaults a, b\n@includedir /etc/sudoers.d", "/etc/sudoers.d/x": "minji ALL=(ALL) ALL",
        "/etc/sudoers-rs": "Defaults c",
    }  # fmt: skip
    assert files.repositories(place) == {"/etc/apt/sources.list": "deb http://x y"}


def test_dns(host: Host) -> None:
    place = host(
        {
            "etc/resolv.conf": "; no\nnameserver 10.0.0.1\nnameserver 10.0.0.2\noptions ndots:5\n",
            "etc/hosts": "10.0.0.3 nas nas.example.org # homes\n",
        }
    )
    assert files.dns(place) == {
        "nameserver": "10.0.0.1\n10.0.0.2", "options": "ndots:5", "/etc/hosts 10.0.0.3": "nas nas.example.org",
    }  # fmt: skip


def test_a_host_without_any_of_it(host: Host) -> None:
    place = host()
    assert [part(place) for part in (files.pam, files.nss, files.cron, files.sudoers, files.dns)] == [{}] * 5
