"""The MPS daemon, played by a script that writes down what it is told."""

import os
import stat

import pytest

from lcpool.sweep.engines import mps
from lcpool.sweep.engines.mps import CONTROL, MPS

SCRIPT = """#!/bin/sh
echo "$* $(cat) $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY" >> {log}
test -d "$CUDA_MPS_PIPE_DIRECTORY" -a -d "$CUDA_MPS_LOG_DIRECTORY" || exit 9
{more}
"""


@pytest.fixture
def daemon(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(mps.tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)

    def install(more=""):
        script = tmp_path / CONTROL
        script.write_text(SCRIPT.format(log=tmp_path / "log", more=more))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return tmp_path / "log"

    return install


def test_it_is_started_and_ended_with_a_folder_of_its_own(daemon):
    log = daemon()
    assert MPS.available()
    server = MPS()
    assert server.start() is None
    assert server.folder.is_dir()
    server.stop()
    pipe, logs = server.environment.values()
    assert [line.split() for line in log.read_text().splitlines()] == [
        ["-d", pipe, logs],
        ["quit", "-t", "5", pipe, logs],
    ]
    assert not server.folder.exists()


def test_one_that_does_not_start_says_why(daemon):
    daemon("echo no permission; exit 1")
    assert MPS().start() == "no permission"


def test_a_daemon_that_keeps_its_output_open_is_not_waited_for(daemon):
    daemon("sleep 30 &")
    server = MPS()
    assert server.start() is None


def test_those_of_killed_commands_are_ended(daemon, tmp_path):
    log = daemon()
    (left := tmp_path / f"{mps.PREFIX}99999999-abc").mkdir()
    mps.clean_up()
    assert log.read_text().split()[:3] == ["quit", "-t", "5"]
    assert not left.exists()


def test_one_that_is_there_is_not_ours(daemon, monkeypatch):
    daemon()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/somewhere")
    assert not MPS.available()
