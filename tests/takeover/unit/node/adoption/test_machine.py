"""What a host is and serves, from its files."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place

from gpuadmin.takeover.node.adoption import machine


def place(tmp_path: Path, **files: str) -> Place:
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Place(root=str(tmp_path))


def test_disks_and_network_file_systems() -> None:
    text = (
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /proc rw - proc proc rw\n3 1 0:50 / /home rw - nfs4 nas:/x rw\n"
        "4 1 0:51 / /mnt/a\\040b\\033[2J rw - xfs /dev/sdb rw\n"
    )
    found = machine.file_systems(Place(), text)
    assert [(one.point, one.network) for one in found] == [("/", False), ("/home", True), ("/mnt/a b?[2J", False)]
    many = "".join(f"{number} 0 8:1 / /m{number} rw - ext4 /dev/sda rw\n" for number in range(500))
    assert len(machine.file_systems(Place(), many)) == 200


def test_exports(tmp_path: Path) -> None:
    text = '# x\n/srv/homes *(rw)\n"/srv/a b" 10.0.0.0/8(ro) \\\n  nas(rw)\n/srv/c\\040d\n\n'
    found = machine.exports(place(tmp_path, etc__exports=text, etc__exports_d__x_exports=""))
    assert [(one.path, one.clients) for one in found] == [
        ("/srv/homes", "*(rw)"), ("/srv/a b", "10.0.0.0/8(ro)    nas(rw)"), ("/srv/c d", ""),
    ]  # fmt: skip
    assert machine.exports(Place(root=str(tmp_path / "nothing"))) == []


def test_root_s_docker_by_its_directories(tmp_path: Path) -> None:
    data = tmp_path / "var/lib/docker"
    (data / "containers" / "ab").mkdir(parents=True)
    for name in ("training", "a" * 64):
        (data / "volumes" / name).mkdir(parents=True)
    (data / "volumes/metadata.db").write_text("")
    found = machine.docker(Place(root=str(tmp_path)))
    assert (found.containers, found.volumes, found.volume_count) == (1, ["training"], 2)
    other = machine.docker(place(tmp_path, etc__docker__daemon_json='{"data-root": "/elsewhere"}'))
    assert (other.data, other.containers) == ("/elsewhere", 0)


@pytest.mark.parametrize("text", ["", "[]", '{"data-root": 7}', '{"data-root": "relative"}', "{", "\x00"])
def test_a_setting_of_docker_s_that_is_none(tmp_path: Path, text: str) -> None:
    assert machine.docker(place(tmp_path, etc__docker__daemon_json=text)).data == machine.DOCKER_DATA


def test_repositories(tmp_path: Path) -> None:
    found = machine.repositories(
        place(
            tmp_path,
            etc__apt__sources_list="# deb //developer.download.nvidia.com/x y\ndeb http://example.org x\n",
            etc__apt__sources_list_d__docker_list="deb https://download.docker.com/linux/debian trixie stable\n",
        )
    )
    assert found == ["docker"]


@pytest.mark.parametrize(("line", "reads"), [("Include", True), ("# Include", False), ("  include", True)])
def test_sshd_and_its_include(tmp_path: Path, line: str, reads: bool) -> None:
    path = tmp_path / "etc/ssh/sshd_config"
    path.parent.mkdir(parents=True)
    path.write_text(f"Port 22\n{line} /etc/ssh/sshd_config.d/*.conf\n")
    assert machine.sshd(Place(root=str(tmp_path))).include is reads
