"""Virtual environments for other people's servers, made once and kept: `python tests/servers/environments.py`.

They lie in $DFML_TEST_SERVERS, else in the user's cache, one folder for each list of packages.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "mlserver": ("mlserver==1.7.1", "onnxruntime==1.31.1", "numpy==2.4.6"),
    "huggingface": (
        "api-inference-community==0.0.37",
        "onnxruntime==1.31.1",
        "numpy==2.4.6",
        "pillow==13.0.0",
        "starlette==1.10.0",
        "uvicorn==0.54.0",
    ),
    "litserve": ("litserve==0.2.19", "onnxruntime==1.31.1", "numpy==2.4.6", "pillow==13.0.0"),
}


def folder() -> Path:
    """Where the environments are."""
    if chosen := os.environ.get("DFML_TEST_SERVERS"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dfml" / "test-servers"


def environment(name: str) -> Path:
    """The `bin` folder of the environment with `PACKAGES[name]`; `RuntimeError` where it cannot be made."""
    key = hashlib.sha256(f"{sys.version_info[:2]} {PACKAGES[name]}".encode()).hexdigest()[:12]
    place = folder() / f"{name}-{key}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # somebody else may be making it
        if not (place / "ready").exists():
            shutil.rmtree(place, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(place)])
            _run([str(place / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *PACKAGES[name]])
            (place / "ready").touch()
    return place / "bin"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{' '.join(command)} failed: {told[-1]}")  # one line, as the reason of a skip


if __name__ == "__main__":
    missing = []
    for each in PACKAGES:
        try:
            print(environment(each), flush=True)
        except RuntimeError as error:
            missing.append(f"{each}: {error}")
    sys.exit("\n".join(missing) or 0)
