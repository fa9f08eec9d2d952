"""TFLite files: what LiteRT answers through the seam is what arithmetic says, whatever numbers the file uses."""

import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import tflite_files
from dfml.apis.blackbox import ApiSpec, innermost, rest
from dfml.apis.loading import load_apis
from dfml.apis.local.tflite import TfliteApi
from dfml.apis.pixels import InputConfig
from dfml.apis.scores import OutputConfig
from dfml.errors import ConfigError
from tflite_files import FLOAT, INT8, UINT8

SPEC = ApiSpec(name="tiny", classes=("yes", "no", "who knows"), image=(3, 4, 4))


@pytest.fixture
def file(tmp_path):
    tflite_files.write(tmp_path / "tiny.tflite")
    return tmp_path / "tiny.tflite"


@pytest.fixture
def images(rng):
    return torch.rand(21, 3, 4, 4, generator=rng)


def by_hand(images, classes=3, first=False):
    """softmax(x W) in float64; pixels in the order (height, width, channels) unless channels are first."""
    pixels = images.double().numpy()
    pixels = pixels if first else pixels.transpose(0, 2, 3, 1)
    scores = pixels.reshape(len(pixels), -1) @ tflite_files.weights(classes).astype(np.float64)
    raised = np.exp(scores - scores.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


@pytest.mark.parametrize("first", [False, True])
def test_the_file_answers_what_arithmetic_says_in_the_layout_that_it_has(tmp_path, images, first):
    tflite_files.write(tmp_path / "tiny.tflite", first=first)
    api = TfliteApi(tmp_path / "tiny.tflite", SPEC)
    np.testing.assert_allclose(api(images).numpy(), by_hand(images, first=first), atol=1e-6)
    assert api.spec.levels is None


@pytest.mark.parametrize("kind", [UINT8, INT8])
def test_eight_bit_numbers_go_in_and_come_out(tmp_path, images, kind):
    """Scores are multiples of 1/256; of their error of half a step some goes to the others when the sum is mended."""
    tflite_files.write(tmp_path / "tiny.tflite", kind=kind)
    api = TfliteApi(tmp_path / "tiny.tflite", SPEC)
    assert api.spec.levels == 256
    eight_bit = (images * 255).round() / 255
    answers = api(images)
    np.testing.assert_allclose(answers.numpy(), by_hand(eight_bit), atol=2 / 256)
    torch.testing.assert_close(answers.sum(1), torch.ones(len(images)))


def test_eight_bit_numbers_that_were_normalised_are_so_before_they_are_stored(tmp_path, images):
    """The file's stored q means q / 255. With mean 0.25 and std 0.5, x goes in as 2 x - 0.5, cut off at 0 and 1."""
    tflite_files.write(tmp_path / "tiny.tflite", kind=UINT8)
    api = TfliteApi(tmp_path / "tiny.tflite", SPEC, input=InputConfig(mean=(0.25,) * 3, std=(0.5,) * 3))
    meant = (2 * images - 0.5).clamp(0, 1)
    np.testing.assert_allclose(api(images).numpy(), by_hand((meant * 255).round() / 255), atol=2 / 256)


def test_a_float_file_of_0_to_255_gets_whole_numbers(file, images):
    """The file's W is for [0, 1], so a file for 0..255 sees the image 255 times as bright."""
    api = TfliteApi(file, SPEC.with_changes(levels=256), input=InputConfig(encoding="uint8"))
    np.testing.assert_allclose(api(images).numpy(), by_hand((images * 255).round()), atol=1e-5)


def test_small_scores_of_many_classes_are_completed(tmp_path, images):
    """Of 300 classes most have less than 1/512: their zeros share what the large scores leave, evenly."""
    tflite_files.write(tmp_path / "many.tflite", kind=UINT8, classes=300)
    spec = SPEC.with_changes(classes=tuple(map(str, range(300))))
    exact = by_hand((images * 255).round() / 255, 300)
    sent = np.round(exact * 256) / 256
    assert sent.sum(1).min() < 0.98
    zeros = sent == 0
    even = np.where(zeros, (1 - sent.sum(1, keepdims=True)) / zeros.sum(1, keepdims=True), sent)
    ok = sent.sum(1) <= 0.99  # others may need their sum mended instead
    answers = TfliteApi(tmp_path / "many.tflite", spec)(images).numpy()
    close = np.abs(answers - even).max(1) < 1e-6  # a score on the edge of two steps may round either way
    assert ok.sum() >= 3
    assert close[ok].mean() > 0.5
    np.testing.assert_allclose(answers.sum(1), 1, atol=1e-5)
    scaled = TfliteApi(tmp_path / "many.tflite", spec, output=OutputConfig(missing="none"))(images).numpy()
    assert ((scaled == 0) == (answers < 1 / 512)).all()


def test_logits_get_their_softmax(tmp_path, images):
    tflite_files.write(tmp_path / "tiny.tflite", softmax=False)
    api = TfliteApi(tmp_path / "tiny.tflite", SPEC, output=OutputConfig(scale="logits"))
    np.testing.assert_allclose(api(images).numpy(), by_hand(images), atol=1e-6)


def test_threads_rests_and_pickles_change_no_bit(file, images):
    api = TfliteApi(file, SPEC, threads=1)
    expected = api(images)
    assert torch.equal(TfliteApi(file, SPEC, threads=3)(images), expected)
    with ThreadPoolExecutor(4) as pool:
        for answer in pool.map(api, [images] * 8):
            assert torch.equal(answer, expected)
    rest(api)
    assert torch.equal(api(images), expected)
    assert torch.equal(pickle.loads(pickle.dumps(api))(images), expected)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert torch.equal(pool.submit(api, images).result(), expected)


FORK = """
import os, sys, numpy as np, torch
from dfml.apis.blackbox import ApiSpec
from dfml.apis.local.tflite import TfliteApi
torch.set_num_threads(1)
api = TfliteApi(sys.argv[1], ApiSpec(name="tiny", classes=("a", "b", "c"), image=(3, 4, 4)), threads=2)
images = torch.from_numpy(np.load(sys.argv[2]))
before = api(images)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(api(images), before) else 1)
assert os.waitpid(child, 0)[1] == 0
assert torch.equal(api(images), before)
"""


def test_nothing_is_written_by_the_way(file, images):
    np.save(file.with_name("images.npy"), images.numpy())
    code = FORK.split("child =")[0] + "print('to standard error', file=sys.stderr)"
    command = [sys.executable, "-c", code, file, file.with_name("images.npy")]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert (told.stdout, told.stderr) == ("", "to standard error\n")


def test_a_forked_child_answers_with_interpreters_of_its_own(file, images):
    np.save(file.with_name("images.npy"), images.numpy())
    subprocess.run([sys.executable, "-c", FORK, file, file.with_name("images.npy")], check=True, timeout=120)


def test_a_file_that_travelled_answers_from_its_content(file, images):
    api = TfliteApi(file, SPEC)
    expected = api(images)
    rest(api)
    api.content = file.read_bytes()
    file.unlink()
    assert torch.equal(api(images), expected)


def test_a_manifest_names_it_with_a_background_and_a_word_twice(tmp_path, images):
    tflite_files.write(tmp_path / "tiny.tflite", classes=4)
    (tmp_path / "names.txt").write_text("background\ncrane\ngull\ncrane\n")
    (tmp_path / "apis.toml").write_text(
        "[apis.tiny]\nprotocol = 'tflite'\nfile = 'tiny.tflite'\nlabels = 'names.txt'\nimage = [3, 4, 4]\n"
        "output.background = 'background'\n"
    )
    (api,) = load_apis(tmp_path)
    assert api.spec.classes == ("crane", "gull", "crane (2)")
    exact = by_hand(images, 4)[:, 1:]
    np.testing.assert_allclose(api(images).numpy(), exact / exact.sum(1, keepdims=True), atol=1e-5)
    assert isinstance(innermost(api), TfliteApi)


@pytest.mark.parametrize(
    ("changes", "output", "complaint"),
    [
        ({"classes": ("a", "b")}, {}, "answers 3 classes, but tiny is described with 2; name them all"),
        ({"image": (3, 8, 8)}, {}, r"takes images \(height, width, channels\) \(4, 4, 3\), but tiny is described with"),
        ({"image": (1, 4, 4)}, {}, "correct image"),
        ({}, {"name": "logits"}, "expected an output 'logits' of scores .* the file has probs float32"),
    ],
)
def test_a_spec_that_does_not_fit_the_file_is_refused(file, changes, output, complaint):
    with pytest.raises(ConfigError, match=complaint):
        TfliteApi(file, SPEC.with_changes(**changes), output=OutputConfig(**output))


def test_missing_and_broken_files_are_refused(file):
    with pytest.raises(ConfigError, match=r"nowhere\.tflite: there is no such TFLite file"):
        TfliteApi(file.with_name("nowhere.tflite"), SPEC)
    for content in (b"", b"not a model", file.read_bytes()[:100], file.read_bytes()[:8] + bytes(100)):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"tiny\.tflite: not a readable TFLite file") as caught:
            TfliteApi(file, SPEC)
        assert "\n" not in str(caught.value)


def test_a_missing_package_is_named(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(ConfigError, match=r"TFLite files need ai-edge-litert; run pip install 'dfml\[tflite\]'"):
        TfliteApi(file, SPEC)


def test_the_writer_of_these_files_writes_what_it_says(tmp_path):
    """The interpreter itself, on one image of zeros: all scores are equal."""
    from ai_edge_litert.interpreter import Interpreter

    for kind, dtype in ((FLOAT, np.float32), (UINT8, np.uint8), (INT8, np.int8)):
        tflite_files.write(tmp_path / "x.tflite", kind=kind)
        interpreter = Interpreter(str(Path(tmp_path / "x.tflite")))
        interpreter.allocate_tensors()
        (given,), (told,) = interpreter.get_input_details(), interpreter.get_output_details()
        assert given["dtype"] == told["dtype"] == dtype
        assert (given["shape"].tolist(), told["shape"].tolist()) == ([1, 4, 4, 3], [1, 3])
