"""What people share, mounts and the cache of images: what each host is given."""

from typing import Any

import pytest

from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.hosts import variables

HOSTS = (
    Host("gpu1", ("gpu",), {"gpuadmin_address": "10.0.0.1"}),
    Host("nas1", ("storage",), {"gpuadmin_address": "10.0.0.9"}),
    Host("mon1", ("monitor",), {"gpuadmin_address": "fd00::7"}),
)
SITE: dict[str, Any] = {
    "groups": [{"name": "vision", "gid": 50001}],
    "shared": [{"name": "imagenet", "group": "vision", "size": "2T", "backup": False}, {"name": "my-notes"}],
    "mounts": [
        {"from": "nas2:/data", "at": "/data", "options": "ro,suid"},
        {"from": "//nas3/share", "at": "/srv/nas3", "type": "cifs", "hosts": ["mon1"]},
        {"from": "/dev/vg/scratch", "at": "/big", "type": "ext4", "hosts": ["storage"]},
    ],
}


def of(host: str, **site: Any) -> dict[str, Any]:
    cluster = Cluster(Settings.model_validate({"name": "lab", **SITE, **site}), HOSTS, {"gpuadmin_users": []})
    (one,) = [each for each in HOSTS if each.name == host]
    return variables(cluster, one)


def test_a_node_mounts_what_people_share_and_what_the_site_names() -> None:
    always = "hard,noatime,nosuid,nodev,_netdev"
    assert [tuple(one.values()) for one in of("gpu1")["mounts_wanted"]] == [
        ("10.0.0.9:/srv/storage/shared/imagenet", "/shared/imagenet", "nfs4", always, "shared-imagenet"),
        ("10.0.0.9:/srv/storage/homes/_shared-my-notes", "/shared/my-notes", "nfs4", always, "shared-my\\x2dnotes"),
        ("nas2:/data", "/data", "nfs4", f"{always},ro,suid", "data"),
    ]
    assert [one["where"] for one in of("mon1")["mounts_wanted"]] == ["/srv/nas3"]
    assert of("mon1")["mounts_wanted"][0]["options"] == "nosuid,nodev,_netdev"
    assert of("nas1")["mounts_wanted"][0]["options"] == "nosuid,nodev"  # of a disk of its own
    assert {"/shared/imagenet", "/data"} <= set(of("gpu1")["node_state_look_at"])


def test_the_storage_host_makes_bounds_and_serves_it() -> None:
    found = of("nas1")
    assert [(one["path"], one["gid"], one["size"]) for one in found["homes_server_shared"]] == [
        ("/srv/storage/shared/imagenet", 50001, "2T"),
        ("/srv/storage/homes/_shared-my-notes", 19999, "unlimited"),
    ]
    assert found["limits_amounts_shared"] == found["homes_server_shared"]
    assert of("gpu1")["limits_amounts_shared"] == []
    assert found["limits_disk_paths"] == ["/srv/storage/homes", "/srv/storage/shared/imagenet"]
    assert of("gpu1")["accounts_groups"] == found["accounts_groups"] == [{"name": "vision", "gid": 50001}]
    directory = of("nas1", accounts={"source": "directory"})
    assert [one["gid"] for one in directory["homes_server_shared"]] == [None, None]
    assert directory["accounts_groups"] == []


@pytest.mark.parametrize(
    ("docker", "host", "url"),
    [
        ({"mirror": True}, "nas1", "http://10.0.0.9:5000"),
        ({"mirror": "mon1"}, "mon1", "http://[fd00::7]:5000"),
        ({"mirror": "gpu1"}, None, None),
        ({"mirror": False}, None, None),
        ({"mirror": True, "enabled": False}, None, None),
    ],
)
def test_one_host_keeps_images_and_peoples_docker_asks_it(docker: dict[str, Any], host: str | None, url: str) -> None:
    found = {one.name: of(one.name, docker=docker) for one in HOSTS}
    assert [name for name, one in found.items() if one["docker_mirror_enabled"]] == ([host] if host else [])
    assert found["gpu1"]["rootless_docker_mirror_url"] == url
