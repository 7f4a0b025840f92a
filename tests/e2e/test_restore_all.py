"""A storage host lost everybody's homes: one plan brings them back, and leaves alone what people have done since."""

import pytest

from tests.support.lab_cluster import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.root]
HOMES, STORAGE, NODE = "/srv/storage/homes", "storage1", "node1"


@pytest.mark.slow
def test_everybody_s_home_comes_back(cluster: Cluster) -> None:
    for name in ("minji", "jiho", "sora"):
        cluster.add(name)
        cluster.person(name, NODE, f"mkdir -p thesis; echo {name} > thesis/text; chmod 700 thesis")
    assert cluster.gpuadmin("backup", "--yes")["result"]["problems"] == {}
    cluster.admin(STORAGE, f"rm -rf {HOMES}/minji {HOMES}/jiho {HOMES}/sora")
    cluster.gpuadmin("sync-users", "--yes")  # as on a new storage host: homes that are as they begin
    cluster.admin(STORAGE, f"rm -rf {HOMES}/jiho")  # and one that is not there
    cluster.person("sora", NODE, "echo since > new")
    looked = cluster.gpuadmin("restore-home", "--all", "--check")["result"]
    assert set(looked["homes"]) == {"minji", "jiho"}
    assert looked["left"] == {"sora": "there is a home that somebody has used"}
    cluster.admin(STORAGE, f"test ! -e {HOMES}/jiho -a ! -e {HOMES}/minji/thesis")
    done = cluster.gpuadmin("restore-home", "--all", "--yes")["result"]
    assert (done["homes"], done["problems"]) == (looked["homes"], {})
    for name in ("minji", "jiho"):
        assert cluster.person(name, NODE, "cat thesis/text; stat -c %a thesis").split() == [name, "700"]
    assert cluster.person("sora", NODE, "ls").split() == ["new"]
    cluster.person("minji", NODE, "echo newer > thesis/text")
    assert cluster.gpuadmin("restore-home", "--all", "--yes")["result"] == {}, "there is nothing to do any more"
    assert cluster.person("minji", NODE, "cat thesis/text").split() == ["newer"]
