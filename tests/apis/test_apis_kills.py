"""kill -9 at any moment: nothing lost, nothing counted twice, nothing asked again."""

import subprocess
import sys
from pathlib import Path

import pytest

KILLING = Path(__file__).with_name("killing.py")


def kill(folder: Path, times: int) -> None:
    done = subprocess.run([sys.executable, KILLING, folder, str(times)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_ledger_survives_kills(tmp_path: Path) -> None:
    kill(tmp_path, 20)


@pytest.mark.slow
def test_the_ledger_survives_a_thousand_kills(tmp_path: Path) -> None:
    kill(tmp_path, 1000)
