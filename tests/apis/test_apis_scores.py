"""What local APIs answer in other people's ways, by the manifest alone, and what rounding can and cannot explain."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dfml.apis.blackbox import ApiSpec, check_answer
from dfml.apis.loading import load_apis
from dfml.apis.manifest import read_manifest, told_apart
from dfml.apis.scores import OutputConfig, label_entropy, probabilities
from dfml.errors import BadAnswer, ConfigError

IMAGE = torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def api(tmp_path, monkeypatch):
    """A function that makes an API of classes ant, bee, cat (or as told) which always answers the same."""

    def made(answer, *lines, classes=("ant", "bee", "cat")):
        name = f"fixed_{abs(hash((str(answer), lines)))}"
        (tmp_path / f"{name}.py").write_text(f"def predict(images):\n    return [{answer!r}] * len(images)\n")
        (tmp_path / "apis.toml").write_text(
            f"[apis.toy]\nprotocol = 'python'\nfunction = '{name}:predict'\nimage = [3, 4, 4]\n"
            f"classes = {list(classes)}\n" + "\n".join(lines)
        )
        (loaded,) = load_apis(tmp_path)
        return loaded

    return made


@pytest.mark.parametrize(
    ("answer", "lines", "expected"),
    [
        ([50, 25, 25], ("output.scale = '100'",), [0.5, 0.25, 0.25]),
        (np.log([5, 3, 2]).tolist(), ("output.scale = 'logits'",), [0.5, 0.3, 0.2]),
        ([0.2, 0.7, 0.1], ("output.kind = 'label'",), [0, 1, 0]),
        (1, ("output.kind = 'label'",), [0, 1, 0]),
        ("cat", ("output.kind = 'label'",), [0, 0, 1]),
        ([0.2, 0.7, 0.1], ("output.kind = 'top-k'", "output.top_k = 1"), [0.15, 0.7, 0.15]),
        ([("bee", 0.7)], ("output.kind = 'top-k'", "output.top_k = 1"), [0.15, 0.7, 0.15]),
        ([("cat", 0.5), ("ant", 0.25)], ("output.kind = 'top-k'", "output.top_k = 2"), [0.25, 0.25, 0.5]),
        ([0.6, 0.3, 0.0], ("output.threshold = 0.2",), [0.6, 0.3, 0.1]),
        ([0.6, 0.0, 0.0], ("output.threshold = 0.2",), [0.6, 0.2, 0.2]),
        ([0.6, 0.3, 0.0], ("output.threshold = 0.2", "output.missing = 'none'"), [2 / 3, 1 / 3, 0]),
        ([0.75, 0.0, 0.0], ("output.step = 0.25",), [0.75, 0.125, 0.125]),
        ([0.5, 0.25, 0.5], ("output.step = 0.25",), [0.4, 0.2, 0.4]),
        ([0.2, 0.6, 0.2], ("output.background = 'ant'",), [0.75, 0.25]),
        ([1.0, 0.0, 0.0], ("output.background = 'ant'",), [0.5, 0.5]),
        ([0.0, 0.0, 1.0], ("output.background = 'cat'", "output.kind = 'label'"), [0.5, 0.5]),
        ([50, 30, 20], ("output.scale = '100'", "output.background = 'cat'"), [0.625, 0.375]),
    ],
)  # fmt: skip
def test_every_kind_of_answer_of_a_local_api_is_one_probability_vector(api, answer, lines, expected):
    np.testing.assert_allclose(api(answer, *lines)(IMAGE).numpy(), [expected], atol=1e-6)


@pytest.mark.parametrize(
    ("answer", "lines", "complaint"),
    [
        ([0.5, 0.3, 0.2], ("output.scale = '100'",), "a sum of 0.01; output.scale does not fit"),
        ([50, 30, 20], ("output.step = 0.00390625",), "a sum of 100; is output.scale right"),
        ([0.3, 0.2, 0.0], ("output.step = 0.00390625",), "sum to 0.97.* or more, .* below 0.00195 are missing"),
        ([0.6, 0.0, 0.0], ("output.threshold = 0.05",), "sum to 0.88 or more"),
        ([0.6, -0.1, 0.5], ("output.threshold = 0.2",), "0 or more, got -0.1"),
        ([7.0, 3.0, 2.0], ("output.missing = 'none'", "output.threshold = 2.5"), "a sum of 10"),
        ("cow", ("output.kind = 'label'",), "'cow', which is not in its classes"),
        (7, ("output.kind = 'label'",), "'7', which is not in its classes"),
        ([0.5, 0.5], ("output.kind = 'label'",), "answers 2 scores an image"),
    ],
)
def test_what_rounding_cannot_explain_is_refused(api, answer, lines, complaint):
    with pytest.raises(BadAnswer, match=complaint):
        api(answer, *lines)(IMAGE)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("output.background = 'cow'", "output.background = 'cow' is not in its classes; known are ant, bee, cat"),
        ("output.step = 0.0", "output.step is above 0 and at most 1"),
        ("output.step = 2.0", "output.step is above 0 and at most 1"),
    ],
)
def test_settings_that_cannot_be_right_get_one_sentence(api, lines, complaint):
    with pytest.raises(ConfigError, match=complaint):
        api([1, 0, 0], lines)


# A thousand classes, of which rounding leaves a few.

MANY = ApiSpec(name="many", classes=tuple(map(str, range(1001))), image=(3, 4, 4), decimals=2)


def rounded(seed, *, sharp):
    scores = np.random.default_rng(seed).normal(size=(50, 1001)) * sharp
    raised = np.exp(scores)
    return np.round(raised / raised.sum(1, keepdims=True), 2)


@pytest.mark.parametrize("sharp", [0.1, 1.0, 3.0])
def test_all_that_rounding_a_thousand_classes_can_do_is_accepted(sharp):
    answers = check_answer(MANY, torch.from_numpy(rounded(0, sharp=sharp)), 50)
    assert answers.shape == (50, 1001)
    completed = probabilities(MANY, OutputConfig(decimals=2), rounded(0, sharp=sharp), 50)
    off = np.abs(completed.sum(1).numpy() - 1)
    assert off.max() <= 0.02 + 0.005 * (rounded(0, sharp=sharp) > 0).sum(1).max()
    assert (completed.argmax(1) == torch.from_numpy(rounded(0, sharp=sharp)).argmax(1)).all()


@pytest.mark.parametrize(
    "scores",
    [
        {0: 100.0},
        {0: 1.2},
        {0: 0.9, 1: 0.9},
        {0: 0.5, 1: float("nan")},
        {0: 1.1, 1: -0.1},
        {0: float("inf")},
    ],
)
def test_a_thousand_classes_with_two_decimals_are_still_checked(scores):
    """Two scores can be 0.005 too large each, and the zeros only too small: their sum is at most 1.01."""
    answer = torch.zeros(1, 1001)
    for column, score in scores.items():
        answer[0, column] = score
    with pytest.raises(BadAnswer, match="many: expected probabilities"):
        check_answer(MANY, answer, 1)
    with pytest.raises(BadAnswer, match="many: expected"):
        probabilities(MANY, OutputConfig(decimals=2), answer.double().numpy(), 1)


def test_few_classes_keep_the_scores_that_they_sent():
    spec = ApiSpec(name="few", classes=("a", "b", "c", "d", "e"), image=(3, 4, 4), decimals=1)
    sent = np.array([[0.4, 0.3, 0.2, 0.0, 0.0]])
    np.testing.assert_allclose(probabilities(spec, OutputConfig(decimals=1), sent, 1).numpy(), sent, atol=1e-7)


@given(st.integers(0, 10_000), st.sampled_from([2, 3, 30, 1001]), st.floats(0.05, 20), st.sampled_from([256, 100, 10]))
@settings(deadline=None, max_examples=60)
def test_no_probabilities_are_refused_for_having_been_rounded_or_cut_off(seed, way, sharp, steps):
    """Whatever was true: after rounding to steps, or without its small scores, the answer is a probability vector, the
    scores that were sent keep their order, and each is as far from the truth as it was sent, or the sum was mended."""
    scores = np.random.default_rng(seed).normal(size=(4, way)) * sharp
    true = np.exp(scores - scores.max(1, keepdims=True))
    true /= true.sum(1, keepdims=True)
    spec = ApiSpec(name="any", classes=tuple(map(str, range(way))), image=(3, 4, 4))
    rounded_down = np.where(true < 1 / steps, 0, true)
    for output, sent in (
        (OutputConfig(step=1 / steps), np.round(true * steps) / steps),
        (OutputConfig(threshold=1 / steps), rounded_down),
    ):
        answer = probabilities(spec, output, sent, 4).numpy()
        np.testing.assert_allclose(answer.sum(1), 1, atol=1e-3)
        for row, told in zip(answer, sent, strict=True):
            by_score = row[np.argsort(told, kind="stable")]
            large = np.count_nonzero(told)
            assert (np.diff(by_score[way - large :]) >= -1e-6).all()
    np.testing.assert_allclose(answer[rounded_down > 0], true[rounded_down > 0], atol=1e-6)


# Class names that stand twice.


def test_words_that_stand_twice_are_told_apart():
    assert told_apart(["crane", "gull", "crane", "crane"]) == ("crane", "gull", "crane (2)", "crane (3)")
    assert told_apart(["crane", "crane (2)", "crane"]) == ("crane", "crane (2)", "crane (3)")
    assert told_apart(["a", "b"]) == ("a", "b")


def test_a_file_of_labels_may_have_a_word_twice_but_a_list_may_not(tmp_path):
    head = "[apis.toy]\nprotocol = 'huggingface'\nurl = 'http://h'\nimage = [3, 4, 4]\n"
    (tmp_path / "names.txt").write_text("crane\ngull\ncrane\n")
    (tmp_path / "apis.toml").write_text(head + "labels = 'names.txt'\n")
    assert read_manifest(tmp_path).entries["toy"].classes == ("crane", "gull", "crane (2)")
    (tmp_path / "apis.toml").write_text(head + "classes = ['crane', 'gull', 'crane']\n")
    with pytest.raises(ConfigError, match="crane stands twice"):
        load_apis(tmp_path)


def test_the_second_mention_of_such_a_word_is_the_second_class():
    spec = ApiSpec(name="toy", classes=("crane", "gull", "crane (2)"), image=(3, 4, 4))
    told = [[("crane", 0.6), ("crane", 0.3), ("gull", 0.1)]]
    np.testing.assert_allclose(probabilities(spec, OutputConfig(), told, 1).numpy(), [[0.6, 0.1, 0.3]], atol=1e-6)
    with pytest.raises(BadAnswer, match="twice"):
        probabilities(spec, OutputConfig(), [[("gull", 0.6), ("gull", 0.4)]], 1)


@pytest.mark.parametrize(("labels", "bits"), [([0, 1, 2, 3], 2.0), ([2, 2, 2], 0.0), ([1, 1, 3, 3], 1.0), ([], 0.0)])
def test_labels_that_vary_more_tell_more(labels, bits):
    assert label_entropy(torch.eye(4)[labels]) == pytest.approx(bits, abs=1e-9)
