"""The kernel: its release, command line and settings; and NVIDIA's driver."""

from __future__ import annotations

import os
import re

from .place import LONGEST_KEY, Place, Settings

MOST_SYSCTLS = 6000
#: What counts something, is made up at boot, or is computed from memory and processors: proc_sys(5), kernel.org's
#: Documentation/admin-guide/sysctl.
_VOLATILE = re.compile(
    r"""
    fs[.](dentry-state|file-nr|inode-nr|inode-state|aio-nr|file-max|quota[.].*|binfmt_misc[.].*|nfs[.].*|lease-break-time)
    | fs[.]epoll[.]max_user_watches | fs[.]inotify[.]max_user_watches_default
    | kernel[.](random[.].*|ns_last_pid|pty[.]nr|hostname|domainname|cad_pid|threads-max|perf_event_max_sample_rate)
    | kernel[.](usermodehelper[.].*|sched_domain[.].*|keys[.].*|version|osrelease|ostype|spl[.].*|tainted|sem_next_id)
    | kernel[.](msg_next_id|shm_next_id|bootloader_.*|max_lock_depth|cap_last_cap|ngroups_max|arch|real-root-dev)
    | user[.]max_.* | vm[.](min_free_kbytes|lowmem_reserve_ratio|user_reserve_kbytes|admin_reserve_kbytes|stat_refresh)
    | net[.]netfilter[.]nf_(conntrack_(count|max|buckets|expect_max)|log.*) | net[.]nf_conntrack_max
    | net[.]core[.](netdev_rss_key|flow_limit_cpu_bitmap|rps_default_mask)
    | net[.]ipv4[.](tcp_mem|udp_mem|tcp_max_orphans|tcp_max_tw_buckets|tcp_max_syn_backlog|fib_trie.*|ip_local_ports.*)
    | net[.]ipv[46][.](conf|neigh)[.](?!all[.]|default[.]).*  # of an interface: its name is another elsewhere
    | net[.]ipv6[.]conf[.].*[.]stable_secret | net[.]ipv6[.]route[.].*
    | net[.]mptcp[.].* | net[.]ipv4[.](tcp_fastopen_key|tcp_available_.*|tcp_child_ehash_entries|tcp_ehash_entries)
    | net[.](unix[.]|ipv4[.]vs[.]|fan[.]|iw_cm[.]|rds[.]).*
    | dev[.]cdrom[.].* | dev[.](raid|parport|scsi|hpet|i915|tty|mac_hid|ipmi)[.].* | sunrpc[.].* | debug[.].* | abi[.].*
    """,
    re.VERBOSE,
)


def kernel(place: Place) -> Settings:
    """Its release, each word of its command line, and what is decided at boot for memory and processors."""
    found = {
        "release": place.word("/proc/sys/kernel/osrelease"),
        "distribution": _distribution(place),
        "architecture": os.uname().machine,
    }
    words: dict[str, list[str]] = {}
    for word in place.word("/proc/cmdline").split():
        name, _, value = word.partition("=")
        words.setdefault(name, []).append(value or "is there")
    found.update({f"command line: {name}": "\n".join(values) for name, values in words.items()})
    for name in ("enabled", "defrag"):
        chosen = re.search(r"\[(.*?)\]", place.word(f"/sys/kernel/mm/transparent_hugepage/{name}"))
        if chosen:
            found[f"transparent_hugepage {name}"] = chosen.group(1)
    governor = place.word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    lockdown = re.search(r"\[(.*?)\]", place.word("/sys/kernel/security/lockdown"))
    for name, value in (("cpufreq governor", governor), ("lockdown", lockdown.group(1) if lockdown else "")):
        if value:
            found[name] = value
    for flaw in place.names("/sys/devices/system/cpu/vulnerabilities"):
        found[f"vulnerability {flaw}"] = place.word(f"/sys/devices/system/cpu/vulnerabilities/{flaw}")
    return found


def _distribution(place: Place) -> str:
    try:
        found = re.search(r'^PRETTY_NAME="?(.*?)"?$', place.text("/etc/os-release"), re.MULTILINE)
    except OSError:
        return "unknown"
    return found.group(1) if found else "unknown"


def sysctl(place: Place) -> Settings:
    """sysctl(8)'s names and values, except those that nobody has set (_VOLATILE)."""
    top = place.path("/proc/sys")
    found: Settings = {}
    for directory, below, names in os.walk(top):
        below.sort()
        for file in sorted(names):
            path = os.path.join(directory, file)
            name = os.path.relpath(path, top).replace("/", ".")
            if _VOLATILE.fullmatch(name) or len(name) > LONGEST_KEY or len(found) >= MOST_SYSCTLS:
                continue
            try:
                with open(path, "rb") as stream:
                    found[name] = " ".join(stream.read(4096).decode("utf-8", "replace").split())
            except OSError:
                continue  # some can only be written
    return found


def driver(place: Place) -> Settings:
    """NVIDIA's driver, what it was loaded with, and its GPUs by model and VBIOS; the kernel answers, not the driver's
    programs.
    """
    found: Settings = {}
    version = place.word("/sys/module/nvidia/version")
    kind = re.search(r"NVRM version: (.*?)\s+\d+\.\d+", place.word("/proc/driver/nvidia/version"))
    found["nvidia"] = version or "is not loaded"
    if kind:
        found["nvidia kind"] = kind.group(1)
    for line in _lines(place, "/proc/driver/nvidia/params"):
        name, _, value = line.partition(":")
        found[f"parameter {name.strip()}"] = value.strip()
    models: dict[str, int] = {}
    bios: dict[str, set[str]] = {}
    for gpu in place.names("/proc/driver/nvidia/gpus"):
        pairs = [one.partition(":") for one in _lines(place, f"/proc/driver/nvidia/gpus/{gpu}/information")]
        told = {name.strip(): value.strip() for name, _, value in pairs}
        model = told.get("Model", "unknown model")
        models[model] = models.get(model, 0) + 1
        for name in ("Video BIOS", "GPU Firmware"):
            if name in told:
                bios.setdefault(f"{name} of {model}", set()).add(told[name])
    found.update({f"GPUs {model}": str(number) for model, number in models.items()})
    found.update({name: "\n".join(sorted(versions)) for name, versions in bios.items()})
    return found


def _lines(place: Place, name: str) -> list[str]:
    try:
        with open(place.path(name), "rb") as stream:
            return stream.read(1 << 16).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
