"""A worker whose master was killed goes, too: else it would hold on to a core and to a run folder, unseen."""

import os
import signal
import subprocess
import sys
import time

MASTER = """
import os, sys, time
from pathlib import Path
from dfml.engine.pool import side_by_side

def work(item, report):
    Path(item).write_text(str(os.getpid()))
    time.sleep(600)

if __name__ == "__main__":
    list(side_by_side(work, [sys.argv[1]], workers=1))
"""


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def waited(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def test_a_worker_ends_with_its_master(tmp_path):
    script, told = tmp_path / "master.py", tmp_path / "worker"
    script.write_text(MASTER)
    master = subprocess.Popen([sys.executable, script, told])
    try:
        assert waited(lambda: told.exists() and told.read_text())
        worker = int(told.read_text())
        master.send_signal(signal.SIGKILL)
        master.wait()
        assert waited(lambda: not alive(worker), 20)
    finally:
        master.kill()
        if told.exists() and alive(int(told.read_text())):
            os.kill(int(told.read_text()), signal.SIGKILL)
