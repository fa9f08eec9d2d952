"""The process: its threads, its allocator and its memory."""

import os
import re
import subprocess
import sys

import pytest


def peak_after(megabytes):
    """What a fresh process says of itself after holding so many megabytes."""
    script = (
        f"held = bytearray({megabytes} << 20); held[::4096] = bytes(len(held[::4096])); del held\n"
        "from dfml.runtime import peak_memory_mb; print(peak_memory_mb())"
    )
    return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def test_peak_memory_counts_what_was_held_and_given_back():
    assert 190 <= peak_after(700) - peak_after(500) <= 210  # both above what the imports take


def spins(tmp_path, **variables):
    """How often a thread looks before it sleeps, as OpenMP says that a command has loaded."""
    command = [sys.executable, "-m", "dfml", "images", "--count", "1", "--out", str(tmp_path / "sheet.png")]
    own = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    told = own | {"OMP_DISPLAY_ENV": "VERBOSE"} | variables
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=True)
    return int(re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)[0])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="torch brings another OpenMP there")
def test_threads_sleep_while_they_wait_unless_the_user_decided(tmp_path):
    assert spins(tmp_path) == 0
    assert spins(tmp_path, OMP_WAIT_POLICY="active") > 10**6
