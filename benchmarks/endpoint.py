"""`dfml serve` as a process of its own, for whoever measures through it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(manifest: Path, *options: str) -> Iterator[str]:
    """The address of a server of `manifest`, for as long as it is needed."""
    command = [sys.executable, "-m", "dfml", "serve", str(manifest), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split(" at ")[1].split(";")[0]
        finally:
            process.terminate()
