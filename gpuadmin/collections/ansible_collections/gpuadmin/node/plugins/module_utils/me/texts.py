"""What a cause (causes/) means for the person themselves: what to do, then why. In the order in which they matter.

``{0}``, ``{1}`` are the cause's values. A text names nobody else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

ADMINS_EN, ADMINS_KO = "Tell your admins", "관리자에게 알려 주세요"
WAIT_EN = "Wait; nothing is lost. If it lasts longer than ten minutes, tell your admins"
WAIT_KO = "기다려 주세요. 데이터는 사라지지 않습니다. 10분이 넘으면 관리자에게 알려 주세요"


class Text(NamedTuple):
    """In each language: what to do, and why."""

    en: tuple[str, str]
    ko: tuple[str, str]


def _admins(en: str, ko: str) -> Text:
    return Text((ADMINS_EN, en), (ADMINS_KO, ko))


#: What keeps somebody from working.
CAUSES: Mapping[str, Text] = {
    "nologin": Text(
        ("Save your work and log out; log in again later", "nobody may log in at the moment: {0}"),
        ("작업을 저장하고 로그아웃한 뒤 나중에 다시 로그인하세요", "지금은 아무도 로그인할 수 없습니다: {0}"),
    ),
    "shell": _admins(
        "your login shell {0} does not work on this node", "이 노드에서 로그인 셸 {0}을(를) 쓸 수 없습니다"
    ),
    "homes-late": Text((WAIT_EN, "the homes do not answer"), (WAIT_KO, "홈 디렉터리가 응답하지 않습니다")),
    "homes-stale": _admins("the homes have to be mounted again", "홈 디렉터리를 다시 마운트해야 합니다"),
    "homes-not-mounted": _admins(
        "the homes are not mounted on this node; what you save now is not in your home",
        "이 노드에 홈 디렉터리가 마운트되어 있지 않습니다. 지금 저장하는 파일은 홈에 남지 않습니다",
    ),
    "home-missing": _admins("your home {0} is missing", "홈 디렉터리 {0}이(가) 없습니다"),
    "home-kind": _admins("your home {0} is not a directory", "홈 {0}이(가) 디렉터리가 아닙니다"),
    "home-owner": _admins("your home {0} does not belong to you", "홈 디렉터리 {0}의 소유자가 본인이 아닙니다"),
    "home-passwd": _admins(
        "this node takes {0} for your home, and not {1}",
        "이 노드는 홈 디렉터리를 {1}이(가) 아니라 {0}(으)로 알고 있습니다",
    ),
    "home-mode": Text(
        ("chmod u+rwx {0}", "you took your own rights to your home away"),
        ("chmod u+rwx {0}", "홈 디렉터리에 본인의 권한이 없습니다"),
    ),
    "homes-full": Text(
        ("Delete what you do not need, and tell your admins", "the disk of the homes is full: {0} of {1} left"),
        ("필요 없는 파일을 지우고 관리자에게 알려 주세요", "홈 디스크가 가득 찼습니다: {1} 중 {0} 남음"),
    ),
    "homes-inodes": Text(
        ("Delete directories of many small files, and tell your admins", "no more files fit on the disk of the homes"),
        ("작은 파일이 많은 디렉터리를 지우고 관리자에게 알려 주세요", "홈 디스크에 더 이상 파일을 만들 수 없습니다"),
    ),
    "homes-read-only": _admins("the homes are read-only", "홈 디렉터리에 쓸 수 없습니다(읽기 전용)"),
    "amount-full": Text(
        (
            "docker system prune; if Docker no longer starts, delete a large file of yours in your place for its data",
            "your Docker data on this node is full: {0} of {1}; what writes there fails with 'Disk quota exceeded'",
        ),
        (
            "docker system prune을 실행하세요. Docker가 시작되지 않으면 Docker 데이터 디렉터리에서 큰 파일을 지우세요",
            "이 노드의 Docker 데이터가 가득 찼습니다: {1} 중 {0} 사용. 더 쓰면 'Disk quota exceeded' 오류가 납니다",
        ),
    ),
    "amount-home-full": Text(
        (
            "delete what you do not need (gpuadmin-me disk says what is large), or ask your admins for more",
            "your home is full: {0} of {1}; what writes there fails with 'Disk quota exceeded'",
        ),
        (
            "필요 없는 파일을 지우거나(큰 파일: gpuadmin-me disk) 관리자에게 용량을 늘려 달라고 하세요",
            "홈 디렉터리가 가득 찼습니다: {1} 중 {0} 사용. 더 쓰면 'Disk quota exceeded' 오류가 납니다",
        ),
    ),
    "processes": _admins(
        "you may run only {0} processes on this node", "이 노드에서 프로세스를 {0}개만 실행할 수 있습니다"
    ),
    "tasks": Text(
        ("End processes that you do not need: ps -u $USER", "your processes reached their limit of {1} on this node"),
        ("필요 없는 프로세스를 종료하세요: ps -u $USER", "이 노드의 프로세스 한도({1}개)에 도달했습니다"),
    ),
    "manager": _admins("your session could not start completely", "세션이 제대로 시작되지 않았습니다"),
    "tmp": _admins("nobody may write to {0} on this node", "이 노드의 {0}에 아무도 쓸 수 없습니다"),
    "quota": Text(
        ("Delete what you do not need, or ask your admins for more", "the quota of your home is used up"),
        ("필요 없는 파일을 지우거나 관리자에게 용량을 늘려 달라고 하세요", "홈 디렉터리의 할당량을 모두 썼습니다"),
    ),
    "session-home": _admins("no file can be written in your home: {0}", "홈 디렉터리에 파일을 쓸 수 없습니다: {0}"),
    "session-tmp": _admins("no temporary file can be written: {0}", "임시 파일을 쓸 수 없습니다: {0}"),
    "session-process": Text(
        ("End processes that you do not need: ps -u $USER", "no process can be started"),
        ("필요 없는 프로세스를 종료하세요: ps -u $USER", "프로세스를 시작할 수 없습니다"),
    ),
    "session-command": Text(
        ("Look at ~/.bashrc, or at what your shell reads", "your shell ends before a command (scp, editors): {0}"),
        ("~/.bashrc 등 셸 설정 파일을 확인하세요", "명령을 실행하기 전에 셸이 끝납니다(scp, 편집기): {0}"),
    ),
    "session-login": Text(
        ("Look at ~/.bashrc and ~/.profile, or at what your shell reads", "your shell ends at log-in: {0}"),
        ("~/.bashrc, ~/.profile 등 셸 설정 파일을 확인하세요", "로그인할 때 셸이 끝납니다: {0}"),
    ),
    "docker-missing": _admins("Docker is not installed on this node", "이 노드에 Docker가 설치되어 있지 않습니다"),
    "docker-disk": Text(
        ("docker system prune", "the disk of Docker's data on this node is full: {0} left"),
        ("docker system prune", "이 노드의 Docker 디스크가 가득 찼습니다: {0} 남음"),
    ),
    "docker-subids": Text(
        ("add-me-to-docker-user", "you have no range of ids for containers on this node"),
        ("add-me-to-docker-user", "이 노드에 컨테이너용 ID 범위가 없습니다"),
    ),
    "docker-mappers": _admins(
        "rootless Docker cannot start on this node (newuidmap)", "이 노드에서 Docker를 시작할 수 없습니다(newuidmap)"
    ),
    "docker-masked": Text(
        ("systemctl --user unmask docker.service docker.socket", "you switched {0} off for yourself (masked)"),
        ("systemctl --user unmask docker.service docker.socket", "본인이 {0}을(를) 꺼 두었습니다(mask)"),
    ),
    "docker-data": Text(
        ("add-me-to-docker-user; if that does not help, tell your admins", "your place for Docker's data is not right"),
        (
            "add-me-to-docker-user를 실행하고 안 되면 관리자에게 알려 주세요",
            "Docker 데이터 디렉터리 문제입니다",
        ),
    ),
    "docker-daemon": Text(
        ("systemctl --user restart docker.service (your running containers end)", "your Docker daemon: {0}"),
        ("systemctl --user restart docker.service (실행 중인 컨테이너는 종료됩니다)", "Docker 데몬: {0}"),
    ),
    "docker-socket": Text(
        ("systemctl --user restart docker.socket", "your Docker socket is missing"),
        ("systemctl --user restart docker.socket", "Docker 소켓이 없습니다"),
    ),
    "session-docker": Text(
        ("systemctl --user restart docker.service (your running containers end)", "your Docker daemon does not answer"),
        (
            "systemctl --user restart docker.service (실행 중인 컨테이너는 종료됩니다)",
            "Docker 데몬이 응답하지 않습니다",
        ),
    ),
    "gpu-versions": _admins(
        "the node has to be rebooted: its GPU driver is of two versions",
        "노드를 재부팅해야 합니다. GPU 드라이버 버전이 서로 다릅니다",
    ),
    "gpu-driver": _admins("the GPUs of this node have no driver", "이 노드의 GPU에 드라이버가 없습니다"),
    "gpu-silent": _admins("the GPU driver of this node does not answer", "이 노드의 GPU 드라이버가 응답하지 않습니다"),
    "gpu-broken": _admins(
        "a GPU is broken; do not trust its results: {0}", "GPU가 고장 났습니다. 결과를 믿지 마세요: {0}"
    ),
    "disk-full": Text(
        ("Delete what you have in {0}, and tell your admins", "the disk of {0} is full"),
        ("{0}에 있는 본인 파일을 지우고 관리자에게 알려 주세요", "{0} 디스크가 가득 찼습니다"),
    ),
    "disk-inodes": Text(
        ("Delete small files that you have in {0}, and tell your admins", "no more files fit on the disk of {0}"),
        ("{0}에 있는 작은 파일을 지우고 관리자에게 알려 주세요", "{0} 디스크에 더 이상 파일을 만들 수 없습니다"),
    ),
    "disk-read-only": _admins("{0} is read-only", "{0}에 쓸 수 없습니다(읽기 전용)"),
    "names": _admins("this node does not find the storage host", "이 노드가 스토리지 서버를 찾지 못합니다"),
    "amount-over": Text(
        ("Delete what you do not need: gpuadmin-me disk", "your home is larger than it may be: {0} of {1}"),
        ("필요 없는 파일을 지우세요: gpuadmin-me disk", "홈 디렉터리가 한도를 넘었습니다: {1} 중 {0} 사용"),
    ),
    "amount-docker-over": Text(
        ("docker system prune", "your Docker data on this node is more than it may be: {0} of {1}"),
        ("docker system prune", "이 노드의 Docker 데이터가 한도를 넘었습니다: {1} 중 {0} 사용"),
    ),
    "home-others": _admins("your ~/{0} belongs to somebody else", "~/{0}의 소유자가 본인이 아닙니다"),
    "session-noise": Text(
        ("Print nothing in ~/.bashrc where no terminal is", "your shell prints text, which breaks scp and rsync: {0}"),
        ("터미널이 아닐 때는 ~/.bashrc에서 아무것도 출력하지 마세요", "셸 출력 때문에 scp와 rsync가 실패합니다: {0}"),
    ),
    "session-late": Text(
        ("Look at ~/.bashrc: what does it wait for?", "your shell does not come to a command in 3 s"),
        ("~/.bashrc가 무엇을 기다리는지 확인하세요", "셸이 3초 안에 명령을 실행하지 못합니다"),
    ),
    "session-cut": Text(
        ("Look at ~/.bashrc and ~/.profile", "a session that was tried was ended"),
        ("~/.bashrc와 ~/.profile을 확인하세요", "시험 세션이 중간에 끝났습니다"),
    ),
    "dns": _admins("the name server {0} does not answer", "이름 서버 {0}이(가) 응답하지 않습니다"),
    "gpu-lost": Text(
        ("Use another GPU, and tell your admins", "{0} of this node does not answer"),
        ("다른 GPU를 쓰고 관리자에게 알려 주세요", "이 노드의 {0}이(가) 응답하지 않습니다"),
    ),
    "gpu-cdi": _admins(
        "containers do not get all GPUs of this node by name",
        "이 노드에서 컨테이너가 일부 GPU를 이름으로 쓸 수 없습니다",
    ),
    "gpu-full": Text(
        ("Use another node, or wait", "the {0} GPUs of this node are all used by others"),
        ("다른 노드를 쓰거나 기다려 주세요", "이 노드의 GPU {0}개를 모두 다른 사람이 쓰고 있습니다"),
    ),
    "gpu-grant": Text(
        (
            "To get one: {way}",
            "GPUs are given on request here, and you have none: opening one fails with 'Operation not permitted'",
        ),
        (
            "{way} 신청하세요",
            "이 노드의 GPU는 신청해야 쓸 수 있습니다. 지금은 배정된 GPU가 없어 GPU를 열면 "
            "'Operation not permitted' 오류가 납니다",
        ),
    ),
    "container-oom": Text(
        ("docker run with a larger --memory, or smaller batches", "your container {0} used up its memory"),
        ("docker run --memory를 늘리거나 배치를 줄이세요", "컨테이너 {0}의 메모리가 부족했습니다"),
    ),
    "container-gpu": Text(
        ("See the names of the GPUs: ls /etc/cdi /run/cdi", "your container {0} asked for a GPU that is not there"),
        ("GPU 이름을 확인하세요: ls /etc/cdi /run/cdi", "컨테이너 {0}이(가) 없는 GPU를 요청했습니다"),
    ),
    "container-killed": Text(
        ("Watch memory while it runs: docker stats", "your container {0} was killed: out of memory, or docker stop"),
        (
            "실행 중에 메모리를 확인하세요: docker stats",
            "컨테이너 {0}이(가) 강제 종료됨: 메모리 부족 또는 docker stop",
        ),
    ),
    "container-architecture": Text(
        ("docker pull --platform linux/{3} IMAGE", "the image of your container {0} is for another processor ({2})"),
        ("docker pull --platform linux/{3} IMAGE", "컨테이너 {0}의 이미지는 다른 CPU용입니다({2})"),
    ),
    "container-program": Text(
        ("Look at the command after the image's name", "the image of your container {0} has no such program"),
        ("이미지 이름 뒤에 쓴 명령을 확인하세요", "컨테이너 {0}의 이미지에 그런 프로그램이 없습니다"),
    ),
    "memory-limit": Text(
        (
            "Use smaller batches or fewer workers",
            "your processes reached their limit of memory on this node ({1}): {0} were killed",
        ),
        ("배치를 줄이거나 워커 수를 줄이세요", "이 노드의 메모리 한도({1})에 도달해 프로세스 {0}개가 종료되었습니다"),
    ),
    "memory": Text(
        ("Use less memory, or another node", "this node has {0} of {1} memory left"),
        ("메모리를 줄이거나 다른 노드를 쓰세요", "이 노드의 메모리가 {1} 중 {0} 남았습니다"),
    ),
    "homes-slow": Text(
        ("Read data from the node's own disk", "the homes are slow: {0} ms for one question"),
        ("데이터를 노드의 로컬 디스크에서 읽으세요", "홈 디렉터리가 느립니다: 요청 한 번에 {0} ms"),
    ),
}
#: What is worth knowing.
NOTES: Mapping[str, Text] = {
    "docker-not-given": Text(
        ("add-me-to-docker-user", "you have no Docker on this node yet"),
        ("add-me-to-docker-user", "이 노드에는 아직 Docker가 없습니다"),
    ),
    "unknown": Text(
        ("Ask again; if it stays so, tell your admins", "this could not be looked at: {0}"),
        ("다시 실행해 보고, 계속되면 관리자에게 알려 주세요", "확인하지 못했습니다: {0}"),
    ),
    "reboot": Text(
        ("Save checkpoints", "this node is to be rebooted after an upgrade"),
        ("체크포인트를 저장해 두세요", "업그레이드 후 재부팅이 필요한 노드입니다"),
    ),
    "clock-free": _admins("nothing keeps the clock of this node right", "이 노드의 시계가 동기화되지 않습니다"),
    "gpu-worse": _admins("a GPU is not as it should be: {0}", "GPU 상태가 정상이 아닙니다: {0}"),
    "gpu-held": Text(
        ("nvidia-smi shows which are free", "others use GPUs of this node"),
        ("비어 있는 GPU는 nvidia-smi로 확인하세요", "다른 사람이 이 노드의 GPU를 쓰고 있습니다"),
    ),
    "gpu-granted": Text(
        (
            "Use {0}. If you need more: {way}",
            "GPUs are given on request here. {0} is yours until {1}; opening others fails: 'Operation not permitted'",
        ),
        (
            "{0}을(를) 쓰고, 더 필요하면 {way} 신청하세요",
            "이 노드의 GPU는 신청해야 쓸 수 있습니다. {0}은(는) {1}까지 쓸 수 있고, "
            "다른 GPU를 열면 'Operation not permitted' 오류가 납니다",
        ),
    ),
    "container": Text(
        ("docker logs {0}", "your container {0} ended with {1}"),
        ("docker logs {0}", "컨테이너 {0}이(가) 코드 {1}(으)로 끝났습니다"),
    ),
}
ORDER: Sequence[str] = (*CAUSES, *NOTES)
#: How somebody gets a GPU, as `way` in a text: on a node without a queue, and on one with a queue.
TO_ASK: Mapping[str, tuple[str, str]] = {
    "en": ("ask your admins, and say for how long and why", "`gpu get`"),
    "ko": ("관리자에게 사용 기간과 용도를 알려", "gpu get으로"),
}
LANGUAGES = ("en", "ko")
