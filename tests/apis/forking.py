"""An ONNX API in a process that forks, and forks again; not a test itself.

`python forking.py FILE` asks FILE about the images.npy beside it: before the first fork, in the child, in the child of
that, and in the parent after both have ended. Each leaves its answers beside the file; `opened` has a line with the
process for each time that FILE was opened.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from dfml.apis.local.onnx import OnnxApi


def main(file: Path) -> None:
    torch.set_num_threads(1)
    inner = onnxruntime.InferenceSession

    def opening(*args, **options):
        with file.with_name("opened").open("a") as diary:
            diary.write(f"{os.getpid()}\n")
        return inner(*args, **options)

    images = torch.from_numpy(np.load(file.with_name("images.npy")))
    # Two threads and three batches, so that a pool of threads is at work, which does not come along in a fork either.
    spec = OnnxApi(file).spec
    onnxruntime.InferenceSession = opening  # type: ignore[assignment,misc]
    api = OnnxApi(file, spec, threads=2, batch=4)

    def answer(who: str) -> None:
        np.save(file.with_name(f"{who}.npy"), api(images).numpy())

    def answer_and_fork() -> None:
        answer("child")
        in_a_child(lambda: answer("grandchild"))

    answer("before")
    in_a_child(answer_and_fork)
    answer("parent")


def in_a_child(work) -> None:
    """Fork, do `work` there, and wait for its good end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)  # a child that waits for threads that did not come along would wait for ever
            torch.set_num_threads(1)  # after a fork PyTorch renews its thread pool: not by two threads at once
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
