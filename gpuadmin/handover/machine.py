"""What of a site's life sits on this machine alone: its repository, timers, ssh's own settings, variables."""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from gpuadmin.common.text import counted, listed
from gpuadmin.config.find import SETTINGS_FILE, USERS_FILE
from gpuadmin.config.hosts_file import HOSTS_FILE
from gpuadmin.config.inventory import Host
from gpuadmin.errors import ConfigError
from gpuadmin.handover.items import IN_ORDER, MISSING, UNKNOWN, YOURS, Item
from gpuadmin.local_programs import ask_git, ask_program
from gpuadmin.reading import expanded, read_limited

_UNITS = ("/etc/systemd/system", "/etc/systemd/user")
#: Where macOS looks for what it starts by itself.
_LAUNCHD = ("~/Library/LaunchAgents", "/Library/LaunchAgents", "/Library/LaunchDaemons")
_CRON = ("/etc/crontab", "/etc/cron.d", "/etc/cron.daily", "/etc/cron.hourly", "/etc/cron.weekly", "/etc/cron.monthly")
#: What of ssh_config decides where a connection ends, and as whom.
_DECIDES = ("hostname", "port", "proxyjump", "proxycommand", "identityfile", "identityagent", "certificatefile")
#: Of an address, what may be a secret: whoever logs in, up to the last @, for a password may hold one; and a query.
_LOGIN, _QUERY = re.compile(r"(://)[^/\s]*@"), re.compile(r"(://[^?#]*)[?#].*", re.DOTALL)
_VARIABLES = re.compile(r"(GPUADMIN|ANSIBLE)_\w+")


def repository(site: Path) -> Iterator[Item]:
    """The site's git repository: whether all of it is committed and pushed, as far as this machine knows."""
    what = "repository"
    git, ask = f"git -C {shlex.quote(str(site))}", partial(ask_git, site)
    begin = f"{git} init && {git} add . && {git} commit"
    if ask_program("git", "--version") is None:
        yield Item(what, str(site), UNKNOWN, "this machine has no git", "install git")
        return
    if ask("rev-parse", "--is-inside-work-tree") != "true":
        words = "is not in a git repository that you can read"
        yield Item(what, str(site), MISSING, words, begin)
        return
    changed = ask("status", "--porcelain", "--", ".")
    if changed is None:
        yield Item(what, str(site), UNKNOWN, "git does not say what is committed", f"{git} status")
    elif changed:
        words = f"{counted(len(changed.splitlines()), 'change is', 'changes are')} not committed"
        yield Item(what, str(site), YOURS, words, f"{git} add -A . && {git} commit")
    elif not ask("ls-files", "--", SETTINGS_FILE):
        words = "is in another repository, which ignores it: none of it is kept"
        yield Item(what, str(site), MISSING, words, begin)
        return
    # guard: a file of the site that git ignores is not committed
    elif left := [one for one in (USERS_FILE, HOSTS_FILE) if (site / one).exists() and not ask("ls-files", "--", one)]:
        words = f"git ignores {listed(left)}: on this machine alone"
        yield Item(what, str(site), MISSING, words, f"{git} add -f {' '.join(left)}")
    else:
        yield Item(what, str(site), IN_ORDER, "all of it is committed")
    remotes = (ask("remote") or "").split()
    if not remotes:
        words = "has no remote: it is on this machine alone"
        yield Item(what, str(site), MISSING, words, f"{git} remote add …")
        return
    upstream = ask("rev-parse", "--abbrev-ref", "@{upstream}")
    remote = next((one for one in remotes if (upstream or "").startswith(f"{one}/")), remotes[0])
    url = ask("remote", "get-url", remote) or remote
    bare = _LOGIN.sub(r"\1", url)
    where = _QUERY.sub(r"\1", bare)
    # a name alone is not a secret
    if where != bare or re.search(r"://[^/@]*:[^/]*@", url):
        yield Item(
            what, where, YOURS, "its address has a password or a token in it", f"{git} remote set-url {remote} …"
        )
    ahead = ask("rev-list", "--count", "@{upstream}..HEAD") if upstream else None
    push = "the remote decides whether the new admin can push; have them try: git push --dry-run"
    if ahead is None:
        yield Item(
            what,
            where,
            YOURS,
            f"the branch has no upstream; {push}",
            f"{git} push -u {remote} HEAD",
        )
    elif ahead != "0":
        commits = counted(int(ahead), "commit is", "commits are")
        yield Item(what, where, YOURS, f"{commits} not pushed; {push}", f"{git} push")
    else:
        yield Item(what, where, IN_ORDER, f"all commits are pushed, as of the last fetch; {push}")


def own_units() -> Path:
    """Where a person's own units are."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "systemd" / "user"


def timers(personal: Path, system: Sequence[str] = (*_UNITS, *_LAUNCHD, *_CRON)) -> Iterator[Item]:
    """Timers and cron jobs of this machine that call gpuadmin. `personal`: the directory of your own units."""
    machine = socket.gethostname()
    found = False
    for path in _calling([personal]):
        found = True
        words = f"runs on {machine}, as you"
        unit = path.parent.name[:-2] if path.suffix == ".conf" else path.name
        if re.match(r"gpuadmin-(notify|report)-", unit):  # an earlier gpuadmin's
            unit = f"--now {Path(unit).stem}.timer"
        again = "what it did the monitor host does: `timers` in gpuadmin.yml, then gpuadmin provision"
        yield Item("timer", str(path), YOURS, words, f"systemctl --user disable {unit}; {again}")
    for path in _calling(map(expanded, system)):
        found = True
        yield Item("timer", str(path), YOURS, f"runs on {machine}", f"take it along if {machine} goes with you")
    done = ask_program("crontab", "-l")
    lines = [] if done is None else [line for line in done.stdout.splitlines() if _calls(line)]
    if lines:
        words = f"{counted(len(lines), 'line calls', 'lines call')} gpuadmin on {machine}, as you"
        yield Item("timer", "your crontab", YOURS, words, "crontab -e; put it where the new admin's runs")
    elif not found:
        yield Item("timer", machine, IN_ORDER, "no timer or cron job here calls gpuadmin")


def _calls(line: str) -> bool:
    return "gpuadmin" in line and not line.lstrip().startswith("#")


def _calling(places: Iterable[Path]) -> Iterator[Path]:
    """Files that call gpuadmin: units, and cron's."""
    for place in places:
        try:
            files = sorted([*place.iterdir(), *place.glob("*.d/*.conf")]) if place.is_dir() else [place]
        except OSError:
            continue
        for path in files:
            try:
                text = read_limited(path).decode("utf-8", "replace") if path.is_file() else ""
            except (OSError, ConfigError):  # closed to us, or far too large for a unit
                continue
            lines = text.replace("\\\n", " ").splitlines()  # a line that continues in the next
            unit = path.suffix in (".service", ".conf")
            if path.suffix != ".timer" and any(_calls(line) and (not unit or "ExecStart" in line) for line in lines):
                yield path


def aliases(hosts: Iterable[Host]) -> Iterator[Item]:
    """Hosts that ssh reaches otherwise with your own settings (~/.ssh/config) than without any."""
    odd: dict[str, list[str]] = {}
    silent = []
    for host in hosts:
        if host.local:
            continue
        mine, plain = (ask_program("ssh", *without, "-G", host.address) for without in ((), ("-F", "none")))
        if mine is None or plain is None or mine.returncode or plain.returncode:
            silent.append(host.name)
            continue
        names = _differing(mine.stdout, plain.stdout, given=host.variables)
        if names:
            odd.setdefault(listed(names), []).append(host.name)
    for settings, of in odd.items():
        words = f"ssh takes {settings} from your own settings for {listed(of)}"
        yield Item(
            "ssh", "~/.ssh/config", YOURS, words, "put it into the inventory: ansible_host, ansible_ssh_common_args"
        )
    if silent:
        yield Item("ssh", "~/.ssh/config", UNKNOWN, f"ssh does not say how it reaches {listed(silent)}", "ssh -G HOST")
    if not odd and not silent:
        yield Item("ssh", "~/.ssh/config", IN_ORDER, "no host needs your own ssh settings")


def _differing(mine: str, plain: str, given: Mapping[str, object]) -> list[str]:
    """Which settings differ, without those that the inventory gives anyway."""
    ours, theirs = _settings(mine), _settings(plain)
    of_inventory = {"port"} if "ansible_port" in given else set()
    return [one for one in _DECIDES if one not in of_inventory and ours.get(one) != theirs.get(one)]


def _settings(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name.lower(), []).append(value)
    return found


def variables(environment: Mapping[str, str]) -> Iterator[Item]:
    """Variables of your shell that gpuadmin or Ansible follow: by name, never their value."""
    names = sorted(name for name in environment if _VARIABLES.fullmatch(name) and name != "GPUADMIN_SITE")
    if names:
        words = f"{listed(names)} {'is' if len(names) == 1 else 'are'} set in your shell"
        yield Item(
            "environment", "your shell", YOURS, words, "put what is needed into gpuadmin.yml, or tell the new admin"
        )
    else:
        yield Item("environment", "your shell", IN_ORDER, "no variable of your shell changes what gpuadmin does")
