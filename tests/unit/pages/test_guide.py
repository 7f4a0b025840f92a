"""The user's guide: what of a site is in it, that nothing of a site is markup in it, and where it is written."""

import json
import re
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.config.fields import key_fingerprint
from gpuadmin.config.inventory import Host
from gpuadmin.config.login import Node, list_login_nodes
from gpuadmin.config.schema import Settings
from gpuadmin.errors import ConfigError
from gpuadmin.pages.gpus import IMAGES, Gpus, cuda_values, seen
from gpuadmin.pages.guide import example, guide
from gpuadmin.pages.render import escaped, page, slug
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli
from tests.support.gpu_reports import GPU, node
from tests.support.sites import public_key
from tests.support.verbs import fail, succeed

NODES = (Node("gpu1", "gpu1.example.org"), Node("gpu2", "10.1.0.12", 2222))


def settings(**more: Any) -> Settings:
    return Settings.model_validate({"name": "GPU 클러스터", **more})


def write(language: str = "en", gpus: tuple[Gpus, ...] = (), **more: Any) -> str:
    return guide(language, settings(**more), NODES, gpus=gpus)


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ("the group vision", "and nobody else can look inside", "Not backed up. At most 2T.", "to read only",
                "everybody with an account", "from their next login on", "come from a cache")),
        ("ko", ("그룹: vision", "그룹 밖에서는 볼 수 없습니다", "백업되지 않습니다. 한도: 2T.", "(읽기 전용)",
                "계정이 있는 사람 모두", "다음 로그인부터", "캐시에서 받습니다")),
    ],
)  # fmt: skip
def test_what_several_people_share_is_in_it(language: str, words: tuple[str, ...]) -> None:
    site: dict[str, Any] = {
        "groups": [{"name": "vision", "gid": 50001}],
        "shared": [{"name": "imagenet", "group": "vision", "size": "2T", "backup": False}, {"name": "notes"}],
        "mounts": [
            {"from": "nas2:/data", "at": "/data", "options": "noatime,ro"},
            {"from": "nas2:/x", "at": "/elsewhere", "hosts": ["storage"]},
        ],
        "docker": {"mirror": True, "images": [{"name": "PyTorch", "from": "pytorch/pytorch:2.4"}]},
    }
    text = write(language, **site)
    places = ("| `/shared/imagenet` |", "| `/shared/notes` |", "| `/data` |")
    assert [word for word in (*places, *words, "docker run --rm -it pytorch/pytorch:2.4") if word not in text] == []
    assert "/elsewhere" not in text
    assert not [word for word in (*places, *words) if word in write(language) and word != words[5]]


@pytest.mark.parametrize("language", ["ko", "en"])
def test_a_project_is_named_where_people_have_one(language: str) -> None:
    site = settings(slurm={}, gpus={"access": "granted"})
    assert "gpu get --project nlp " in guide(language, site, NODES, projects=["vision", "nlp"])
    assert "--project" not in guide(language, site, NODES)


@pytest.mark.parametrize("language", ["ko", "en"])
def test_what_of_a_site_is_in_it(language: str) -> None:
    term = {"name": "2026-2", "deadline": "2026-12-31", "reminders": [1, 14, 0]}
    mail = {"host": "localhost", "sender": "gpu@example.org", "reply_to": "help@example.org"}
    text = write(
        language, term=term, mail=mail, homes={"path": "/people"}, reset={"scratch": ["/scratch"]},
        docker={"data": "/scratch/docker"},
    )  # fmt: skip
    assert "Host gpu2\n    HostName 10.1.0.12\n    Port 2222\n" in text
    assert "Host gpu1 gpu2\n    User NAME\n" in text
    for part in ("NAME@gpu1.example.org", "**2026-12-31**", "help@example.org", "`/people`", "`/scratch/NAME`",
                 "/scratch/docker/NAME", "--shm-size", "rsync -avP", "bin/jupyter lab", "Remote - SSH",
                 "torch.save", "nvidia/cuda:"):  # fmt: skip
        assert part in text, part
    assert {"ko": "14일, 1일 전", "en": "14, 1 days"}[language] in text
    assert "/local" not in text
    assert "{{" not in text.replace("{{.", "")


@pytest.mark.parametrize("language", ["ko", "en"])
def test_gpus_that_are_given_on_request(language: str) -> None:
    asked, looked = "systemd-run --user", "CUDA_VISIBLE_DEVICES=1 python train.py"
    granted, free = guide(language, settings(gpus={"access": "granted"}), NODES), write(language)
    assert (asked in granted, looked in granted) == (True, False)
    assert (asked in free, looked in free) == (False, True)


def test_what_the_inventory_says_of_a_node_counts() -> None:
    hosts = [Host("gpu1", ("gpu",), {"gpus_access": "granted", "limits_docker": "200G"})]
    text = guide("en", settings(limits={}), NODES, hosts=hosts)
    assert "systemd-run --user" in text
    assert "`gpuadmin-me` says how much you may have" in text


def test_who_sends_no_mail_announces_none() -> None:
    term = {"name": "2026-2", "deadline": "2026-12-31"}
    for language, words in (("en", "You get mails before"), ("ko", "메일로 알려 드리니")):
        assert words in write(language, term=term, mail={"host": "localhost", "sender": "gpu@example.org"})
        assert words not in write(language, term=term)


@pytest.mark.parametrize("groups", [("slurm", "storage"), ("slurm",)])
def test_buttons_are_named_where_there_are_some(groups: tuple[str, ...]) -> None:
    hosts = [Host("nas1", groups, {}), Host("gpu1", ("gpu",), {})]
    site = settings(slurm={}, gpus={"access": "granted"}, metrics={"dashboard": {"buttons": True}})
    for language, words in (("en", "Its buttons do"), ("ko", "버튼으로")):
        text = guide(language, site, NODES, dashboard=True, hosts=hosts)
        assert (words in text) == ("storage" in groups), "people have accounts on storage hosts"


@pytest.mark.parametrize("language", ["ko", "en"])
@pytest.mark.parametrize("docker", [True, False])
def test_where_people_take_free_gpus_nobody_is_told_to_ask_first(language: str, docker: bool) -> None:
    site = settings(gpus={"access": "granted", "self_service": {"gpus": 2}}, docker={"enabled": docker})
    text = guide(language, site, NODES)
    assert text.count("`gpu release`") == 2, "where GPUs are taken, and among the rules"
    assert ("gpu run docker run" in text) == docker
    for words in ("given on request", "administrator grants", "tell your administrators, and", "waits for a GPU",
                  "신청해서", "관리자가 배정한", "관리자에게 알려 반납", "기다렸다가"):  # fmt: skip
        assert words not in text


@pytest.mark.parametrize("language", ["ko", "en"])
@pytest.mark.parametrize(
    ("more", "there", "lacking"),
    [
        (
            {"slurm": {}, "gpus": {"access": "granted"}},
            ["gpu run -- ~/first"],
            ["nvidia-smi    #", "gpu get"],
        ),
        ({"gpus": {"access": "granted", "self_service": {}}}, ["gpu run -- ~/first"], ["gpuadmin-me    #"]),
        ({"gpus": {"self_service": {}}}, ["CUDA_VISIBLE_DEVICES=0 ~/first"], ["gpu run"]),
        ({"gpus": {"access": "granted"}}, ["gpuadmin-me    #"], ["gpu get", "gpu release", "nvidia-smi    #"]),
        ({}, ["nvidia-smi    #", "CUDA_VISIBLE_DEVICES=0 ~/first"], ["gpu get", "gpuadmin-me    #"]),
    ],
)
def test_it_begins_with_a_first_run_on_this_site(
    language: str, more: dict[str, Any], there: list[str], lacking: list[str]
) -> None:
    hosts = [Host("nas1", ("slurm",), {}), Host("gpu1", ("gpu",), {"ansible_host": "gpu1.example.org"})]
    text = guide(language, settings(**more), NODES, hosts=hosts).partition("```")[2].partition("```")[0]
    assert len(text.strip().splitlines()) in (3, 4, 5)
    for words in ("NAME@gpu1.example.org", "torch.cuda.is_available()", *there):
        assert words in text
    assert not any(words in text for words in lacking)


@pytest.mark.parametrize("language", ["ko", "en"])
def test_the_queue_s_limits_are_in_it_and_its_examples_keep_them(language: str) -> None:
    groups = [{"name": "phd", "hours": 48, "gpus": 4}, {"name": "class", "gpus": 1, "cpus": 8}]
    text = write(language, slurm={"hours": 4, "gpus": 2, "memory": "96G", "queued": 5, "groups": groups})
    others = {"ko": "그 외", "en": "all others"}[language]
    for row in (
        f"{others} | 2 | 4 | 5 | – | 96G | –",
        "phd | 4 | 48 | 5 | – | 96G | –",
        "class | 1 | 4 | 5 | 8 | 96G | –",
    ):
        assert f"| {row} |" in text
    assert "--time=4:00:00" in text
    assert "--array=0-4 " in text
    for beyond in ("--time=8", "gpu get 2", "torchrun", "--hours 8"):
        assert beyond not in text, beyond
    assert "QOSMax…PerJobLimit" in text
    assert "QOSMax" not in write(language)
    short = write(language, slurm={"hours": 1, "queued": 1})
    assert "--array" not in short
    assert "gpu extend --hours" not in short
    assert "| – | 24 | 20 | – | – | – |" in write(language, slurm={})


@pytest.mark.parametrize("language", ["ko", "en"])
def test_what_one_person_may_have_of_a_node(language: str) -> None:
    own = [{"groups": ["phd"], "memory": "128G"}, {"names": ["minji"], "memory": "1G"}]
    limits = {"memory": "64G", "processors": "16", "home": "500G", "people": own}
    others = {"ko": "그 외", "en": "all others"}[language]
    text = write(language, limits=limits)
    assert f"| {others} | 64G | 16 | 10% | 500G | – |" in text
    assert "| phd | 128G | 16 | 10% | 500G | – |" in text
    assert "1G |" not in text, "of certain people"
    text = write(language, limits={**limits, "scratch": "1T"})
    assert f"| {others} | 64G | 16 | 10% | 500G | – | 1T |" in text
    assert "`/local/NAME`" in next(line for line in text.splitlines() if "`docker rmi`" in line)
    hosts = [Host("gpu1", ("gpu",), {"limits_memory": "8G"})]
    text = guide(language, settings(limits={"home": "500G"}), NODES, hosts=hosts)
    assert "| – | – | 10% | 500G | – |" in text, "it differs"
    assert "10%" not in write(language)


@pytest.mark.parametrize("language", ["ko", "en"])
def test_fingerprints_are_those_of_known_hosts(language: str, tmp_path: Path) -> None:
    first, second, other = (public_key(name).split()[1] for name in ("first", "second", "other"))
    shown = {"ko": "지문과 같을 때만", "en": "Say yes only if"}[language]
    assert shown not in guide(language, settings(), NODES, site=tmp_path)
    (tmp_path / "known_hosts").write_text(
        f"gpu1.example.org ssh-ed25519 {first}\n[10.1.0.12]:2222 ssh-ed25519 {second}\n"
        f"10.1.0.12 ssh-ed25519 {other}\ngpu1.example.org ssh-rsa broken\n"
    )
    text = guide(language, settings(), NODES, site=tmp_path)
    assert shown in text
    for name, key in (("gpu1", first), ("gpu2", second)):
        assert f"| {name} | ED25519 | `{key_fingerprint(key)}` |" in text
    assert key_fingerprint(other) not in text
    by_name = (Node("login", "gpu1"),)
    hosts = [Host("gpu1", ("gpu",), {"ansible_host": "gpu1.example.org"})]
    assert key_fingerprint(first) in guide(language, settings(), by_name, site=tmp_path, hosts=hosts)


@pytest.mark.parametrize(
    ("backups", "words", "lacking"),
    [
        ({}, ("매일 백업되며 최근 14개를 보관", "every day; the newest 14"), ("자동으로 백업하지", "No timer")),
        ({"schedule": None}, ("자동으로 백업하지", "No timer"), ("백업되며", "backups stay")),
        ({"schedule": "Mon 03:00"}, ("Mon 03:00", "Mon 03:00"), ("매일 백업", "every day;")),
    ],
)
def test_what_is_backed_up(backups: dict[str, Any], words: tuple[str, str], lacking: tuple[str, str]) -> None:
    hosts = [Host("nas1", ("storage",), {})]
    for language, there, not_there in zip(("ko", "en"), words, lacking, strict=True):
        text = guide(language, settings(backups=backups), NODES, hosts=hosts)
        assert there in text
        assert not_there not in text
        assert there not in write(language, backups=backups), "without a storage host nothing is known"


@pytest.mark.parametrize("language", ["ko", "en"])
def test_scratch_is_where_nodes_have_it(language: str) -> None:
    """Each person's own, which comes with the account; without one, a directory that anybody can make."""
    text = write(language)
    (row,) = [line for line in text.splitlines() if line.startswith("| `/local/NAME`")]
    assert {"ko": "본인만의 임시 공간", "en": "a directory of your own"}[language] in row
    assert "mkdir -m 700" not in text
    text = write(language, reset={"scratch": ["/tmp", "/var/tmp"]})
    assert "mkdir -m 700 /var/tmp/NAME" in text
    assert "/local/NAME" not in text


def commands(text: str) -> list[str]:
    """What the guide has people type or paste, without what it says beside it."""
    blocks = re.findall(r"(?ms)^```\n(.*?)^```", text)
    return [re.sub(r"\s*# .*", "", line) for block in blocks for line in block.splitlines() if line[:1] != "#"]


@pytest.mark.parametrize("queue", [{}, {"slurm": {"book": {"gpus": 2, "hours": 4}}, "gpus": {"access": "granted"}}])
def test_both_languages_have_people_type_the_same(queue: dict[str, Any]) -> None:
    first, second = (commands(guide(language, settings(**queue), NODES)) for language in ("ko", "en"))
    assert len(first) > 20
    assert first == second


@pytest.mark.parametrize(
    ("nodes", "kind", "mig"),
    [
        ([{"gpu_model": "NVIDIA H100 PCIe"}], "--type h100 ", None),
        ([{"gpu_model": "RTX 3090"}, {"gpu_model": "RTX 3090"}, {"gpu_model": "A100 40GB"}], "--type a100 ", None),
        ([{"gpu_model": "A100 40GB"}, {"gpu_model": "A100 80GB"}], "--type 40gb ", None),
        ([{"gpu_model": "H100", "gpus_mig": {0: [], 1: ["3g.40gb"]}}], "--type h100 ", "--mig 3g.40gb "),
        ([{}], "--type TYPE ", None),
    ],
)
def test_examples_of_the_queue_are_what_the_site_has(nodes: list[dict[str, Any]], kind: str, mig: str | None) -> None:
    hosts = [Host("nas1", ("slurm",), {}), *(Host(f"gpu{n}", ("gpu",), one) for n, one in enumerate(nodes))]
    text = guide("en", settings(slurm={}), NODES, hosts=hosts)
    assert f"gpu get {kind}" in text
    assert re.findall("--mig [^ ]* ", text) == ([] if mig is None else [mig])


@pytest.mark.parametrize(("listen", "told"), [("all", True), ("loopback", False)])
def test_commands_that_need_the_monitor_host(listen: str, told: bool) -> None:
    """Nodes cannot ask a dashboard that is reached through ssh alone."""
    for dashboard in (True, False):
        site = settings(metrics={"dashboard": {"listen": listen}})
        assert ("gpuadmin-me free" in guide("en", site, NODES, dashboard=dashboard)) == (told and dashboard)


def test_where_accounts_have_passwords_ssh_may_ask_for_one() -> None:
    assert "    PreferredAuthentications publickey\n" in write()
    directory = write(accounts={"source": "directory", "group": "gpuusers"})
    assert "publickey\n" not in directory
    assert "'s password:`" not in directory


def test_hosts_behind_one_address_have_their_own_fingerprints(tmp_path: Path) -> None:
    keys = [public_key(str(number)).split()[1] for number in range(2)]
    lines = [f"[10.0.0.1]:{22001 + number} ssh-ed25519 {key}\n" for number, key in enumerate(keys)]
    (tmp_path / "known_hosts").write_text("".join(lines))
    places = [{"ansible_host": "10.0.0.1", "ansible_port": 22001 + number} for number in range(2)]
    hosts = [Host(f"gpu{number}", ("gpu",), place) for number, place in enumerate(places)]
    text = guide("en", settings(), list_login_nodes(settings(), hosts), site=tmp_path, hosts=hosts)
    for number, key in enumerate(keys):
        (row,) = [line for line in text.splitlines() if line.startswith(f"| gpu{number} | ED25519")]
        assert key_fingerprint(key) in row


@pytest.mark.parametrize("stop", [True, False])
def test_the_idle_rule_is_this_site_s(stop: bool) -> None:
    mail = {"host": "localhost", "sender": "gpu@example.org"}
    metrics = {"idle_hours": 3, "idle_notice_hours": 6, "idle_stop": stop}
    hosts = [Host("nas1", ("monitor",), {})]
    for language, told, ended in (
        ("ko", "점유한 채 3시간 동안 쓰지 않은", "그 뒤 6시간"), ("en", "do not use for 3 h", "for 6 h more"),
    ):  # fmt: skip
        text = guide(language, settings(mail=mail, metrics=metrics), NODES, hosts=hosts)
        assert told in text
        assert (ended in text) == stop
        assert told not in guide(language, settings(metrics=metrics), NODES, hosts=hosts), "without mail nobody is told"


@pytest.mark.parametrize("language", ["ko", "en"])
@pytest.mark.parametrize(
    "words",
    ["Connection timed out", "VPN", "are too open", "icacls", "externally-managed-environment", "uv venv", "PowerShell",
     "REMOTE HOST IDENTIFICATION", "**MIG**", "**CDI**"],
)  # fmt: skip
def test_what_people_meet_is_explained(language: str, words: str) -> None:
    assert words in write(language)


def test_only_where_idle_can_tell_people_the_guide_says_that_it_does() -> None:
    mail = {"host": "localhost", "sender": "gpu@example.org"}
    hosts = [Host("gpu1", ("gpu",), {"gpus_access": "granted"}), Host("nas1", ("storage", "monitor"), {})]
    told = "you are told by mail and on your terminals, and the program may be stopped 4 h later."
    assert told in guide("en", settings(mail=mail), NODES, hosts=hosts)
    assert "메일과 터미널로 알려 드리고 4시간 뒤에" in guide("ko", settings(mail=mail), NODES, hosts=hosts)
    assert told not in guide("en", settings(mail=mail), NODES, hosts=hosts[:1])
    assert told not in guide("en", settings(mail=None), NODES, hosts=hosts)


@pytest.mark.parametrize("language", ["ko", "en"])
def test_gpus_that_a_queue_gives(language: str) -> None:
    text = guide(language, settings(gpus={"access": "granted"}, slurm={}), NODES)
    for part in (
        "gpu get --node gpu1", "gpu get --type TYPE",
        "gpu extend --hours 2", "--requeue", "conda.sh; conda activate",
        "SLURM_JOB_GPUS", "(#jupyter", "torchrun --nnodes=2", "`gpu release`", "`gpu get`",
    ):  # fmt: skip
        assert part in text, part
    other = settings(gpus={"access": "granted"}, slurm={"extend": "never"}, docker={"enabled": False})
    text = guide(language, other, NODES)
    assert "SLURM_JOB_GPUS" not in text, "where there is no Docker"
    assert {"ko": "연장할 수 없으니", "en": "is not possible here"}[language] in text
    assert "systemd-run --user" not in text, "nobody is asked but the queue"
    assert "gpu book" not in text, "where nobody may"
    hosts = [
        Host("nas1", ("slurm", "storage"), {}),
        Host("gpu1", ("gpu",), {}),
        Host("gpu2", ("gpu",), {"slurm_node": False}),
        Host("gpu3", ("gpu",), {"slurm_node": False, "gpus_access": "granted"}),
    ]
    text = guide(language, settings(slurm={}), NODES, hosts=hosts)
    opened, granted, end = {
        "ko": ("요청하지 않고 누구나 쓸 수 있습니다", "관리자에게 요청해서 받습니다", "에"),
        "en": ("open to everybody, without asking", "given by your administrators", " is"),
    }[language]
    for name, beside in (("gpu2", opened), ("gpu3", granted)):
        (line,) = [one for one in text.splitlines() if one.startswith(f"{name}{end}")]
        assert beside in line
    assert f"gpu1{end}" not in text
    group = {"name": "phd", "book": {"hours": 3}}
    assert "gpu book --at 09:00 --hours 3 " in guide(language, settings(slurm={"groups": [group]}), NODES)


@pytest.mark.parametrize("language", ["ko", "en"])
def test_what_holds_for_nodes_of_the_queue_is_said_of_these_alone(language: str) -> None:
    scope, look, ask = {
        "ko": (
            "대기열에 있는 노드에만 해당합니다: gpu2.",
            "누구나 쓸 수 있는 노드에서는 시작하기 전에",
            "관리자에게서 받은 GPU를 더 쓰지 않으면",
        ),
        "en": (
            "about the nodes in the queue: gpu2.",
            "Look before you start on a node whose GPUs are open",
            "of GPUs that your administrators gave you: tell",
        ),
    }[language]

    def about(rule: Any = None, **first: Any) -> str:
        hosts = [Host("nas1", ("slurm", "storage"), {}), Host("gpu1", ("gpu",), first), Host("gpu2", ("gpu",), {})]
        site = settings(gpus={"access": "granted", "self_service": rule}, slurm={})
        return guide(language, site, NODES, hosts=hosts)

    opened, granted = about(slurm_node=False, gpus_access="open"), about(slurm_node=False)
    for text in (opened, granted):
        assert scope in text
        assert "gpu get --node gpu2 " in text, "the first to log in to is not in the queue"
        assert "`gpu release`" in text
    assert (look in opened, ask in opened) == (True, False)
    assert (look in granted, ask in granted) == (False, True)
    everywhere = about()
    assert not any(part in everywhere for part in (scope[:20], look, ask))
    assert "gpu get --node gpu1 " in everywhere
    taken = about(slurm_node=False, rule={})
    assert not any(
        part in taken for part in ("given by your", "관리자에게 요청해서 받습니다", "Only they", "이 노드에만")
    )


@pytest.mark.parametrize("language", ["ko", "en"])
def test_what_a_site_does_not_have_is_not_in_it(language: str) -> None:
    text = write(language, docker={"enabled": False}, reset={"scratch": []})
    for part in ("docker", "Docker", "None", "**2026", "example.org."):
        assert part not in text, part
    assert "mkdir -m 700 /var/tmp/NAME" in text


def test_gpus_where_they_are_known() -> None:
    known = (Gpus("gpu1", "8 × NVIDIA A100", "550.54", "12.4"), Gpus("gpu2", "2 × T4"))
    text = write("en", known)
    assert "| gpu1 | 8 × NVIDIA A100 | 550.54 | 12.4 |" in text
    assert "| gpu2 | 2 × T4 | unknown | unknown |" in text
    assert "take an image with CUDA 12.4 or older" in text
    assert "## The GPUs" not in write("en")
    assert "알 수 없음" in write("ko", known)


@pytest.mark.parametrize(
    ("versions", "least", "image"),
    [
        (["12.4", "12.4"], "12.4", "cuda12.4"),
        (["13.0", "12.2"], "12.2", "cuda12.1"),
        (["13.0", None], "13.0", "cuda12.8"),
        (["12.10"], "12.10", "cuda12.8"),
        (["10.2"], "10.2", None),
        ([None, "?"], None, "cuda12.4"),
        ([], None, "cuda12.4"),
    ],
)
def test_which_cuda_image_fits(versions: list[str | None], least: str | None, image: str | None) -> None:
    gpus = tuple(Gpus(f"gpu{number}", "1 × T4", None, version) for number, version in enumerate(versions, start=1))
    found = cuda_values(gpus)
    assert found["least"] == least
    assert [image in one for one in found["images"] if "pytorch" in one] == ([True] if image else [])
    for language in ("ko", "en"):
        text = write(language, gpus)
        assert (least or "nvidia-smi") in text
        assert sum(one in text for images in IMAGES.values() for one in images) == (2 if image else 0)
        assert all(f"**{version}**" in text for _, version in found["each"])


def look(nodes: Any, verb: str = "list-gpus") -> tuple[dict[str, Any], dict[str, Any] | None]:
    return {"verb": verb}, {"result": {"nodes": nodes}}


def test_what_list_gpus_found_last() -> None:
    gpu = {"name": "NVIDIA A100", "memory": 80 << 30}
    new = {"nvml": {"driver": "550.54", "cuda": "12.4", "gpus": [gpu, gpu, {"name": None}]}, "pci": []}
    old = {"nvml": {"driver": "535.1", "cuda": "12.2", "gpus": [gpu]}, "pci": []}
    without = {"nvml": None, "pci": [{"name": "GA100", "vendor": "0x10de"}, {"name": None}]}
    records = [
        ({"verb": "list-gpus"}, None),  # it was cut off
        look(None), look({"gpu1": new}), look({"gpu9": new}, verb="status"),
        look({"gpu1": old, "gpu2": without, "gpu3": {"nvml": None, "pci": []}, "gone": new}),
    ]  # fmt: skip
    found, unseen = seen(records, ["gpu1", "gpu2", "gpu3", "gpu4"])
    assert found == (
        Gpus("gpu1", "2 × NVIDIA A100 (80 GiB), 1 × GPU", "550.54", "12.4"),
        Gpus("gpu2", "1 × GA100, 1 × GPU"),
    )
    assert unseen == ("gpu4",)


def test_both_languages_say_the_same() -> None:
    korean, english = example("ko"), example("en")
    for pattern in (r"(?m)^#+ ", r"(?m)^\| ", r"(?m)^- ", r"(?m)^```"):
        assert len(re.findall(pattern, korean)) == len(re.findall(pattern, english)), pattern
    commands = re.compile(r"(?ms)^```\n(.*?)^```")
    first = [re.sub(r"\s+#.*", "", block) for block in commands.findall(english)]
    assert [re.sub(r"\s+#.*", "", block) for block in commands.findall(korean)] == first


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("language", ["ko", "en"])
def test_the_page_needs_nothing_else_and_its_links_lead_somewhere(language: str) -> None:
    html = page(write(language, slurm={}), language)
    tags = Page(html).tags
    assert {"script", "img", "link", "iframe"} & {tag for tag, _ in tags} == set()
    assert "url(" not in html
    assert "@import" not in html
    anchors = {attributes["id"] for _, attributes in tags if "id" in attributes}
    targets = [attributes["href"] or "" for tag, attributes in tags if tag == "a"]
    assert targets
    from urllib.parse import unquote

    assert [target for target in targets if target.startswith("#") and unquote(target[1:]) not in anchors] == []
    assert f'<html lang="{language}">' in html
    assert "<table>" in html


@pytest.mark.parametrize("name", ["<script>x</script>", "a | b `c` *d* [e](http://x)", "&lt;b&gt;", "~~x~~ # y"])
def test_what_a_site_says_is_no_markup(name: str) -> None:
    html = page(guide("en", settings(name=name), NODES), "en")
    heading = re.search(r"<h1[^>]*>(.*?)</h1>", html, re.DOTALL)
    assert heading is not None
    import html as entities

    assert entities.unescape(heading[1]) == f"Your account on {name}"
    assert "<script" not in html
    assert escaped("a\n# b") == "a\\\\n\\# b"


@pytest.mark.parametrize("language", ["ko", "en"])
def test_no_mark_of_markdown_is_left_in_the_page(language: str) -> None:
    """`*so…*에서` is not emphasis to CommonMark: a letter follows it, and a punctuation mark precedes the star."""
    html = re.sub(r"<(style|code|pre)>.*?</\1>", "", page(write(language), language), flags=re.DOTALL)
    assert re.findall(r".{0,20}(?:\*|`|\]\().{0,20}", re.sub(r"<[^>]*>", "", html)) == []


def test_a_long_page_begins_with_its_contents() -> None:
    text = "# Title\n\n" + "".join(f"## {one} & more\n\nwords\n\n" for one in "abcde")
    html = page(text, "en")
    before, _, after = html.partition("<nav>")
    assert before.rstrip().endswith("</h1>")
    assert after.count('<li><a href="#a--more">a &amp; more</a></li>') == 1
    assert 'id="a--more"' in after
    assert "<nav>" not in page("# Title\n\n## One\n", "en"), "nothing to look for"


@pytest.mark.holds("what a site says is not markup in a page")
def test_html_in_markdown_is_shown() -> None:
    assert "&lt;script&gt;" in page("# x\n\n<script>alert(1)</script>\n", "en")


def test_anchors_are_those_of_github() -> None:
    assert slug("Copying data in and out") == "copying-data-in-and-out"
    assert slug("데이터 주고받기") == "데이터-주고받기"


def test_what_people_log_in_to() -> None:
    hosts = [Host("gpu1", ("gpu",), {"ansible_host": "10.0.0.1", "ansible_port": 2222}),
             Host("gpu2", ("gpu",), {"ansible_host": "{{ lookup('x') }}"})]  # fmt: skip
    assert list_login_nodes(settings(), hosts) == (Node("gpu1", "10.0.0.1", 2222), Node("gpu2", "gpu2"))
    login = ["gpu1", "a.one.org", "a.two.org", "10.0.0.9", "b.one.org"]
    mail = {"host": "localhost", "sender": "gpu@example.org", "login": login}
    found = list_login_nodes(settings(mail=mail), hosts)
    assert [node.name for node in found] == ["gpu1", "a.one.org", "a.two.org", "10.0.0.9", "b"]
    assert [node.port for node in found] == [2222, 22, 22, 22, 22]
    with pytest.raises(ConfigError, match="no nodes"):
        list_login_nodes(settings(), [])


def test_printed_and_written(ansible: Ansible, cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("user-guide", "--language", "ko")
    assert code == 0, err
    assert out.startswith("# test 계정 안내")
    assert "HostName 127.0.0.1\n    Port 2\n" in out
    folder = tmp_path / "public"
    for _ in range(2):  # what it wrote itself it writes again
        succeed(cli, "user-guide", "--output", str(folder))
    assert {path.name for path in folder.iterdir()} == {
        f"user-guide.{language}.{kind}" for language in ("ko", "en") for kind in ("md", "html")
    }
    assert (folder / "user-guide.ko.html").read_text().startswith("<!DOCTYPE html>\n<!-- Made by gpuadmin user-guide")
    document = json.loads(cli("user-guide", "--language", "en", "--json")[1])
    assert document["result"]["pages"]["en"].startswith("# Your account on test")
    assert ansible.asked == []


def test_it_has_what_list_gpus_found(ansible: Ansible, cli: Cli) -> None:
    """From the record of the last look: a guide asks no host."""
    code, _, err = cli("user-guide", "--language", "en")
    assert code == 0
    assert "nothing is known of the GPUs of node1, node2: gpuadmin list-gpus" in err
    gone = HostResult("unreachable", message="does not answer (timed out)")
    ansible.answer = RunResult({"node1": HostResult("ok", reports={"gpus": node(GPU)}), "node2": gone})
    assert cli("list-gpus")[0] == 4
    ansible.asked.clear()
    code, out, err = cli("user-guide", "--language", "en")
    assert "| node1 | 1 × NVIDIA H100 (80 GiB) | 550.163.01 | 12.4 |" in out
    assert "GPUs of node2:" in err
    assert "NVIDIA H100" in cli("call-for-applications", "--language", "ko")[1]
    assert ansible.asked == []


def test_what_it_did_not_write_stays(ansible: Ansible, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "user-guide.en.html").write_text("my own")
    err = fail(cli, 2, "user-guide", "--output", str(tmp_path))
    assert "user-guide.en.html: is there, and gpuadmin did not write it" in err
    assert (tmp_path / "user-guide.en.html").read_text() == "my own"
    assert not (tmp_path / "user-guide.ko.md").exists()
    (tmp_path / "file").write_text("")
    assert "Hint: name another --output" in fail(cli, 1, "user-guide", "--output", str(tmp_path / "file/x"))


def test_a_site_has_its_own_text(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    own = ansible.site / "templates/guide/user-guide.en.md.j2"
    own.parent.mkdir(parents=True)
    own.write_text("# Ours: {{ cluster }}\n")
    assert cli("user-guide", "--language", "en")[1] == "# Ours: test\n"
    own.write_text("{{ nobody_knows }}")
    assert "templates/guide/user-guide.en.md.j2" in fail(cli, 2, "user-guide", "--language", "en")


@pytest.mark.parametrize("attach", [True, False])
def test_the_welcome_mail_carries_it(ansible: Ansible, cli: Cli, tmp_path: Path, attach: bool) -> None:
    assert ansible.site is not None
    mail = {"host": "127.0.0.1", "port": 9, "security": "none", "sender": "gpu@example.org", "attach_guide": attach}
    (ansible.site / "gpuadmin.yml").write_text(json.dumps({"name": "test", "mail": mail}))
    (tmp_path / "form.csv").write_text(
        f"이메일,이름,학번,SSH 공개키,동의\nyuna@example.org,박유나,20260003,{public_key('yuna')},동의\n"
    )
    folder = tmp_path / "mails"
    code, out, err = cli(
        "import-applications", str(tmp_path / "form.csv"), "--preview", "--mail-dir", str(folder)
    )  # fmt: skip
    assert code == 0, err
    (file,) = folder.iterdir()
    message = message_from_bytes(file.read_bytes(), EmailMessage, policy=default)
    carried = {one.get_filename(): one for one in message.iter_attachments()}
    names = ["user-guide.ko.html", "user-guide.en.html"] if attach else []
    assert list(carried) == names
    for name in names:
        assert carried[name].get_content_type() == "text/html"
        assert "HostName 127.0.0.1" in carried[name].get_content()
        assert f"[{name}]" in out
    assert ("이용 안내를 첨부합니다" in out) == attach


@pytest.mark.parametrize(
    ("book", "line"),
    [
        ({}, "gpu book --at 09:00 --hours 8   # {0}1"),
        ({"gpus": 4, "hours": 6}, "gpu book 2 --at 09:00 --hours 6   # {0}2{1}4"),
        ({"gpus": 2, "lead": 0}, "gpu book 2 --at 09:00 --hours 8   # {0}2"),
    ],
)
def test_a_booking_is_of_a_whole_node(book: dict[str, Any], line: str) -> None:
    said = {"en": ("h ahead", "a whole node of ", " to "), "ko": ("시간 전까지", "허용된 경우, GPU ", "~")}
    for language, (lead, *words) in said.items():
        text = write(language, slurm={"book": book})
        assert line.format(*words).replace("of 1", "of one") in text
        assert (lead in text) == (book.get("lead", 12) > 0)


def test_whoever_may_book_may_book_so() -> None:
    groups = [
        {"name": "phd", "book": {"gpus": 4, "hours": 3, "lead": 1}}, {"name": "ms", "book": {"gpus": 2, "hours": 5}},
    ]  # fmt: skip
    text = write("en", slurm={"groups": groups})
    assert "gpu book 2 --at 09:00 --hours 3   # a whole node of 2 GPUs from nine on, if you may, at least 12 h" in text


def test_nothing_is_promised_that_the_site_has_not() -> None:
    mail = {"host": "localhost", "sender": "gpu@example.org"}
    term = {"name": "2026-2", "deadline": "2099-12-31"}
    reminded = {"en": "You get mails before that", "ko": "메일로 알려 드리니"}
    deleted = {"en": "are deleted, and their files", "ko": "본인의 파일이 삭제됩니다"}
    for language in ("en", "ko"):
        none = write(language, mail=mail)
        assert (reminded[language] in none, deleted[language] in none) == (False, False), "no term"
        assert reminded[language] not in write(language, mail=mail, term={**term, "reminders": [0]})
        assert reminded[language] in write(language, mail=mail, term=term)
        found = [Host("nas1", ("storage",))]
        text = guide(language, settings(backups={"ordinary": 0}), NODES, hosts=found)
        assert {"en": "No timer makes backups", "ko": "자동으로 백업하지"}[language] in text
        bare = write(language, docker={"enabled": False}, limits={"home": "500G"})
        assert "docker" not in bare.casefold(), language
        away = guide(language, settings(metrics={"dashboard": {"listen": "loopback"}}), NODES, dashboard=True)
        assert "gpuadmin-me web" not in away, "nobody can log in to the monitor host"
        loses = write(language, slurm={"mail": ["lost"]}, mail=mail)
        assert {"en": "an hour before the end", "ko": "한 시간 전"}[language] not in loses
        own = {"name": "phd", "gpus": 2, "owns": {"types": ["a100"], "others": "never"}}
        lost = {"groups": [{**own, "owns": {"types": ["a100"]}}], "mail": ["lost"]}
        assert {"en": "is preempted", "ko": "작업이 중단됩니다"}[language] in write(language, slurm=lost, mail=mail)
        assert {"en": "(terminal, and", "ko": "(터미널, 스크립트"}[language] in write(language, slurm=lost, mail=mail)
        kept = write(language, slurm={"groups": [own]})
        assert {"en": "is preempted", "ko": "작업이 중단됩니다"}[language] not in kept
        alone = {"en": "Nobody else's jobs run there.", "ko": "그 노드에서 실행되지 않습니다."}[language]
        assert any(line.endswith(alone) for line in kept.splitlines()), "what follows is a line of its own"


def test_some_nodes_are_open_where_others_are_granted() -> None:
    hosts = [Host("gpu1", ("gpu",)), Host("gpu2", ("gpu",), {"gpus_access": "granted"}), Host("nas1", ("storage",))]
    for language, words in (
        ("en", "The GPUs of gpu1 are open to everybody"),
        ("ko", "gpu1 노드의 GPU는 신청 없이 누구나"),
    ):
        text = guide(language, settings(), NODES, hosts=hosts)
        assert words in text
        assert "ssh -p 2222 NAME@10.1.0.12" in text.split("##")[1], "the first run is where a GPU was granted"
        assert "CUDA_VISIBLE_DEVICES=1" in text, "look before you start"


@pytest.mark.parametrize("language", ["en", "ko"])
def test_nobody_sends_a_key_where_a_directory_has_the_accounts(language: str) -> None:
    text = write(language, accounts={"source": "directory"})
    assert {"en": "at our institution:", "ko": "소속 기관 계정으로"}[language] in text
    assert "ssh NAME@gpu1" in text.split("\n## ")[2], "logging in"
    for words in (
        "You gave your administrators",
        "they take the old key out",
        "예전 키는 관리자가",
        "관리자에게 보낸 ssh",
    ):
        assert words not in text
