"""The process: its allocator and its memory."""

import subprocess
import sys


def peak_after(megabytes):
    """What a fresh process says of itself after holding so many megabytes."""
    script = (
        f"held = bytearray({megabytes} << 20); held[::4096] = bytes(len(held[::4096])); del held\n"
        "from dfml.runtime import peak_memory_mb; print(peak_memory_mb())"
    )
    return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def test_peak_memory_counts_what_was_held_and_given_back():
    assert 190 <= peak_after(700) - peak_after(500) <= 210  # both above what the imports take
