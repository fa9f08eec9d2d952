"""`.ci/run` ends by saying what did not run, with `make` replaced by one that prints what pytest would."""

import os
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parent.parent / ".ci" / "run"
CLOSING = "805 passed, 3 skipped, 12 deselected in 300.00s"
SKIPS = [
    "SKIPPED [2] tests/conftest.py:43: NO REAL DATA: set DFML_TEST_DATA to a folder with cifar-fs/",
    "SKIPPED [1] tests/servers/test_servers_learn.py:46: NO MLSERVER: pip install failed: ERROR: no network",
    "SKIPPED [9] tests/real/conftest.py:20: NO REAL NETWORKS: set DFML_TEST_MODELS to a folder",
]


@pytest.fixture
def run(tmp_path):
    """A function that runs `.ci/run` where the three suites print lines and end as told."""
    (tmp_path / "work" / ".ci").mkdir(parents=True)
    (tmp_path / "work" / ".ci" / "run").write_bytes(RUN.read_bytes())
    programs = tmp_path / "bin"
    programs.mkdir()

    def program(name, script):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)

    program("chromium", "true")  # or one would be installed

    def told(*, tests, servers, real=(), status=0, servers_status=0, real_status=0):
        (tmp_path / "test").write_text("\n".join([*tests, CLOSING, ""]))
        (tmp_path / "test-servers").write_text("\n".join([*servers, CLOSING, ""]))
        (tmp_path / "test-real").write_text("\n".join([*real, CLOSING, ""]))
        for silent in ("dev", "docs", "coverage"):
            (tmp_path / silent).write_text("")
        ends = f"test) exit {status};; test-servers) exit {servers_status};; test-real) exit {real_status};;"
        program("make", f'cat "{tmp_path}/$1"; case "$1" in {ends} esac')
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        variables = os.environ | {"PATH": path, "DFML_TEST_DATA": "none", "TMPDIR": str(tmp_path)}
        command = ["bash", str(tmp_path / "work" / ".ci" / "run")]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)

    return told


def test_what_did_not_run_is_said_last(run):
    result = run(tests=SKIPS[:1], servers=SKIPS[1:2], real=SKIPS[2:])
    assert result.returncode == 0
    assert result.stdout.splitlines()[-4:] == [
        CLOSING,
        "not run: NO REAL DATA: set DFML_TEST_DATA to a folder with cifar-fs/ (tests: 2)",
        "not run: NO MLSERVER: pip install failed: ERROR: no network (tests: 1)",
        "not run: NO REAL NETWORKS: set DFML_TEST_MODELS to a folder (tests: 9)",
    ]


def test_and_so_is_that_everything_ran(run):
    result = run(tests=[], servers=[])
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1] == "every suite of make test, make test-servers and make test-real ran"


@pytest.mark.parametrize("failing", ["status", "servers_status", "real_status"])
def test_a_suite_that_fails_fails_the_whole(run, failing):
    result = run(tests=[], servers=[], **{failing: 2})
    assert result.returncode == 2
    assert "every suite" not in result.stdout
