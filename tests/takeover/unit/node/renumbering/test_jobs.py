"""Ids inside of at jobs and of an admin's own files."""

import os
from pathlib import Path

import pytest

from gpuadmin.takeover.node.renumbering import jobs

JOB = b"#!/bin/sh\n# atrun uid=1001 gid=1001\n# mail minji 0\numask 22\necho uid=1001\n"
ME = os.getuid()


@pytest.mark.holds("only an at job is rewritten")
def test_an_at_job_names_its_owner_and_is_the_same_otherwise(tmp_path: Path) -> None:
    spool = tmp_path / "var/spool/cron/atjobs"
    spool.mkdir(parents=True)
    job, other, link = spool / "a00001", spool / ".SEQ", spool / "a00002"
    job.write_bytes(JOB)
    job.chmod(0o700)
    os.utime(job, (1, 2))
    other.write_bytes(b"1")
    (tmp_path / "elsewhere").write_bytes(JOB)
    link.symlink_to(tmp_path / "elsewhere")
    assert jobs.correct_at_jobs(str(tmp_path), {ME: 4321}) == 1
    head = b"uid=%d gid=4321\n" % ME
    assert job.read_bytes() == JOB.replace(b"uid=1001 gid=1001\n", head, 1)
    assert (job.stat().st_mode & 0o777, job.stat().st_mtime) == (0o700, 2)
    assert (tmp_path / "elsewhere").read_bytes() == JOB
    assert jobs.correct_at_jobs(str(tmp_path), {ME: 4321}) == 0, "once is enough"
    assert jobs.correct_at_jobs(str(tmp_path), {ME + 1: 1}) == 0, "another's stays"


def test_lines_that_name_a_uid_are_shown(tmp_path: Path) -> None:
    (tmp_path / "etc/sudoers.d").mkdir(parents=True)
    (tmp_path / "etc/exports").write_text("/x *(anonuid=1001)\n# 1001\n/y *(anonuid=11001)\n/z 10.1001.0\n")
    (tmp_path / "etc/sudoers.d/a").write_text("#1001 ALL=ALL\nuid:1001 ALL\n")
    (tmp_path / "etc/sudoers-rs").write_text("#1001 ALL=ALL\n")
    found = [one.removeprefix(f"{tmp_path}/") for one in jobs.written(str(tmp_path), [1001])]
    assert found == ["etc/exports:1", "etc/sudoers-rs:1", "etc/sudoers.d/a:1", "etc/sudoers.d/a:2"]
    assert jobs.written(str(tmp_path), []) == []


def test_lines_that_name_a_person_are_shown(tmp_path: Path) -> None:
    (tmp_path / "etc/ssh").mkdir(parents=True)
    (tmp_path / "etc/ssh/sshd_config").write_text("Port 1001\nAllowUsers kim j.doe\nAllowUsers jxdoe j.doe2 a.j.doe\n")
    (tmp_path / "etc/sudoers").write_text("j.doe ALL=ALL\n# j.doe\nJ.DOE ALL=ALL\n")
    found = [one.removeprefix(f"{tmp_path}/") for one in jobs.written(str(tmp_path), [1001], ["j.doe"])]
    assert found == ["etc/sudoers:1", "etc/ssh/sshd_config:2"]
