"""The dashboard: a person on a node asks for a link, it works once, and nobody else comes in by it."""

import base64
import errno
import json
import shlex

import pytest

from tests.support.lab_cluster import Cluster
from tests.support.monitored import link, watched

__all__ = ["watched"]
pytestmark = pytest.mark.lab
#: The dashboard's host and one from which people come; another node is no different.
SOME = "storage1,node1"
#: What a browser does that has a link: look, press the button, read; with the dashboard's authority and no other.
BROWSER = """
import http.cookiejar, json, ssl, sys, urllib.error, urllib.parse, urllib.request
link, = sys.argv[1:]
tls = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile="/tmp/authority.pem"))
opener = urllib.request.build_opener(tls, urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
def ask(*what):
    try:
        with opener.open(*what, timeout=30) as answer:
            return answer.status, answer.geturl(), answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.geturl(), answer.read().decode()
parts = urllib.parse.urlsplit(link)
form = urllib.parse.urlencode({"link": urllib.parse.parse_qs(parts.query)["link"][0]}).encode()
print(json.dumps([ask(link), ask(f"https://{parts.netloc}/enter", form), ask(f"https://{parts.netloc}/")]))
"""


@pytest.fixture
def showing(watched: Cluster) -> Cluster:
    """The cluster with storage1 as its monitor host, and minji and junho on it, who have a browser."""
    watched.add("junho")
    authority = watched.admin("storage1", "cat /etc/gpuadmin/dashboard-authority.pem")
    for node in ("node1", "node2"):
        for name, text in (("authority.pem", authority), ("browser.py", BROWSER)):
            encoded = base64.b64encode(text.encode()).decode()
            watched.admin(node, f"echo {encoded} | base64 -d > /tmp/{name}")
    return watched


def browse(cluster: Cluster, name: str, node: str, where: str) -> list[tuple[int, str, str]]:
    """What a browser of somebody's sees: after the link, the button, and of the first page."""
    return [
        tuple(one) for one in json.loads(cluster.person(name, node, f"python3 -I /tmp/browser.py {shlex.quote(where)}"))
    ]


def test_a_link_from_a_node_brings_its_person_in_once(showing: Cluster) -> None:
    korean = showing.person("minji", "node1", "LANG=ko_KR.UTF-8 gpuadmin-me web")
    assert "다른 사람에게 전달하지 마세요" in korean
    minjis = link(showing, "minji", "node1")
    assert "link~node1~minji~" in minjis
    looked, came, first = browse(showing, "minji", "node1", minjis)
    assert (looked[0], came[0], first[0]) == (200, 200, 200)
    assert came[1].endswith(":9443/")
    assert "minji" in first[2]
    # the same link again, by whoever has seen it, also after the service was started again
    assert [one[0] for one in browse(showing, "junho", "node2", minjis)][:2] == [403, 403]
    showing.admin("storage1", "systemctl restart gpuadmin-dashboard")
    refused = browse(showing, "junho", "node2", minjis)
    assert [one[0] for one in refused][:2] == [403, 403]
    assert "이미 사용한 링크입니다" in refused[1][2]
    assert "minji" not in refused[2][2]

    # junho makes minji's of his own, and cannot have what signs it
    forged = link(showing, "junho", "node1").replace("~junho~", "~minji~")
    assert browse(showing, "junho", "node1", forged)[1][0] == 403
    for what in ("cat /var/lib/gpuadmin/dashboard/link.key", "ls /var/lib/gpuadmin/dashboard", "sudo -n true"):
        assert showing.ssh("junho", "node1", what).returncode != 0

    # the admin, through ssh; and what runs has no rights
    assert len(showing.gpuadmin("dashboard", "--check")["result"]["fingerprint"]) == 95
    user = showing.admin("storage1", "ps -o user= -p $(systemctl show -P MainPID gpuadmin-dashboard)").strip()
    assert user not in ("", "root")
    # a person of that host reaches the port, and not the application, to which anybody could say where they come from
    ask = "import socket; print(socket.socket(socket.AF_UNIX).connect_ex('/run/gpuadmin-dashboard.sock'))"
    for name, expected in (("root", 0), ("nobody", errno.EACCES)):
        answer = showing.admin("storage1", f"runuser -u {name} -- python3 -Ic {shlex.quote(ask)}")
        assert answer.strip() == str(expected), name
    # the dashboard is told nothing of people: those who came since leave nothing to do
    again = showing.gpuadmin("provision", "--limit", SOME, "--yes")
    assert {name: host["status"] for name, host in again["hosts"].items()} == dict.fromkeys(again["hosts"], "ok")

    # a site that does not want one any more
    with showing.settings(lambda text: text.replace("metrics: {", "metrics: {dashboard: {enabled: false}, ")):
        showing.gpuadmin("provision", "--limit", SOME, "--yes")
        done = showing.ssh("minji", "node1", "gpuadmin-me web --language en")
        assert (done.returncode, "no dashboard" in done.stderr) == (1, True)
        assert "9443" not in showing.admin("storage1", "ss -ltn")
        showing.gpuadmin("dashboard", "--check", code=2)
