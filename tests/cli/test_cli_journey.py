"""The whole way as a user goes it: zoo, learn, evaluate, adapt, predict, through the real command."""

import json
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from PIL import Image

from dfml.cli import main
from dfml.data import open_dataset

BIDF = ("--method", "bidf-mkd")
SMALL = ("--set", "recovery.filters=4", "--set", "recovery.images_per_class=8", "--set", "net.width=8")
REPLAY = ("--set", "replay.shot=1", "--set", "replay.query=2", "--set", "memory.require_agreement=false")


def dfml(*arguments):
    return main([str(argument) for argument in arguments])


def written(folder, class_index, count, part="test"):
    """Some images of one class as a user would have them: files."""
    folder.mkdir(parents=True)
    images = open_dataset("glyphs", part).images(class_index)[:count]
    for number, image in enumerate(images):
        Image.fromarray(np.asarray(image).transpose(1, 2, 0)).resize((50, 40)).save(folder / f"{number}.png")


@pytest.fixture(scope="module")
def journey(tmp_path_factory):
    """A zoo and a run, made once."""
    place = tmp_path_factory.mktemp("journey")
    assert dfml("zoo", "build", "--apis", 2, "--way", 3, "--width", 8, "--epochs", 2, "--out", place / "zoo") == 0
    learn = ("learn", place / "zoo", "--method", "bidf-mkd", *SMALL, *REPLAY)
    schedule = ("--set", "schedule.visits=2", "--set", "schedule.iterations=4", "--set", "recovery.limit=10")
    assert dfml(*learn, *schedule, "--budget", 100_000, "--out", place / "run") == 0
    return place


def test_the_ledger_tells_what_was_spent(journey, capsys):
    assert dfml("ledger", journey / "run", "--json") == 0
    spent = json.loads(capsys.readouterr().out)
    assert spent["queries"] == sum(api["queries"] for api in spent["apis"].values()) > 0
    provenance = json.loads((journey / "run" / "events.jsonl").read_text().splitlines()[-1])
    assert provenance["queries"] == spent["queries"]


def test_evaluation_says_what_it_measured(journey, capsys, tmp_path):
    file = tmp_path / "result.json"
    arguments = ("evaluate", journey / "run", "--way", 3, "--shot", 1, 2, "--tasks", 4, "--head", "prototype")
    assert dfml(*arguments, "--json", file) == 0
    results = json.loads(file.read_text())
    assert [(r["way"], r["shot"], r["tasks"], r["part"], r["head"]) for r in results] == [
        (3, 1, 4, "test", "prototype"),
        (3, 2, 4, "test", "prototype"),
    ]
    assert all(0 <= r["mean"] <= 100 and r["ci95"] >= 0 for r in results)
    capsys.readouterr()
    assert dfml(*arguments, "--workers", 1, "--json") == 0
    assert json.loads(capsys.readouterr().out) == results, "the number of workers must not matter"


def test_report_and_tensorboard(journey, capsys, tmp_path):
    arguments = ("learn", journey / "zoo", "--budget", 80, "--set", "net.width=4", "--set", "distil.steps=4")
    assert dfml(*arguments, "--tensorboard", "--out", tmp_path / "run") == 0
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    assert not (journey / "run" / "tensorboard").exists(), "off unless asked for"
    assert dfml("report", tmp_path / "run", journey / "run", "--out", tmp_path / "page.html") == 0
    assert "page.html is written" in capsys.readouterr().out.replace("\n", "")
    page = (tmp_path / "page.html").read_text()
    for shown in ("Distance to the APIs&#39; answers", "Queries spent", "chorus", "bidf-mkd", "glyphs-000"):
        assert shown in page


def test_adapt_and_predict(journey, capsys, tmp_path):
    support = tmp_path / "support"
    for label, shots in ((3, 2), (9, 1), (20, 3), (31, 1)):  # unequal shots, and more classes than the head has
        written(support / f"letter {label}", label, shots)
    (support / ".DS_Store").write_bytes(b"stray")
    assert dfml("adapt", journey / "run", "--support", support, "--out", tmp_path / "clf") == 0
    capsys.readouterr()
    assert dfml("predict", tmp_path / "clf", support / "letter 3", "--json") == 0
    answers = json.loads(capsys.readouterr().out)
    assert [set(answer) for answer in answers] == [{"image", "label", "probabilities"}] * 2
    for answer in answers:
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-4)
        assert answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get)
    assert (tmp_path / "clf" / "model.onnx").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("learn", "{zoo}", "--budget", "10", "--out", "{new}"), "2 APIs need at least 40 in all"),
        (("learn", "{zoo}", *BIDF, "--budget", "10", "--out", "{new}"), "below one recovered set, which takes"),
        (("learn", "{zoo}", "--method", "bidfmkd", "--out", "{new}"), "did you mean 'bidf-mkd'"),
        (("learn", "{zoo}", *BIDF, "--preset", "papper", "--out", "{new}"), "did you mean 'paper'"),
        (("learn", "{zoo}", *BIDF, "--set", "recovery.step=3", "--out", "{new}"), "did you mean 'steps'"),
        (("learn", "{new}", "--out", "{new}"), "does not exist"),
        (("learn", "{zoo}", "--out", "{zoo}"), "holds apis, but no run of dfml"),
        (("learn", "{zoo}", "--seed", "5", "--out", "{run}"), "holds a run with another config"),
        (("evaluate", "{new}"), "does not exist"),
        (("evaluate", "{run}", "--shot", "200", "--way", "3"), "120 images"),
        (("adapt", "{run}", "--support", "{new}", "--out", "{new}"), "is no folder"),
        (("predict", "{run}", "x.png"), "does not exist"),
        (("ledger", "{new}"), "is no run folder"),
        (("report", "{new}", "--out", "{new}"), "holds neither a run of dfml learn nor results of dfml bench"),
        (("zoo", "show", "{run}"), "holds neither apis.toml nor zoo.toml"),
    ],
)
def test_bad_input_gets_one_sentence(journey, tmp_path, capsys, arguments, complaint):
    places = {"zoo": journey / "zoo", "run": journey / "run", "new": tmp_path / "new"}
    assert dfml(*(argument.format(**places) for argument in arguments)) == 1
    message = capsys.readouterr().err
    assert complaint in message
    assert len(message.strip().splitlines()) == 1
    assert "Traceback" not in message


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda support: (support / "empty").mkdir(), "holds no images"),
        (
            lambda support: [f.unlink() for f in (support / "a").iterdir()] and (support / "a").rmdir(),
            "only the class 'b'",
        ),
        (lambda support: (support / "a" / "x.png").write_bytes(b"no image"), "cannot be read as an image"),
    ],
)
def test_bad_support_folders_get_one_sentence(journey, tmp_path, capsys, spoil, complaint):
    for label, name in enumerate("ab"):
        written(tmp_path / "support" / name, label, 1)
    spoil(tmp_path / "support")
    assert dfml("adapt", journey / "run", "--support", tmp_path / "support", "--out", tmp_path / "clf") == 1
    assert complaint in capsys.readouterr().err


def test_a_run_folder_in_use_is_left_alone(journey, capsys):
    import tomllib

    from dfml.runs import RunFolder

    config = tomllib.loads((journey / "run" / "config.toml").read_text())
    with RunFolder(journey / "run", config, resume=True):
        code = "import sys; from dfml.cli import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", code, "learn", str(journey / "zoo"), "--out", str(journey / "run"), "--resume"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "in use by another process" in result.stderr


def test_an_unknown_option_is_answered_in_one_line(capsys):
    with pytest.raises(SystemExit):
        dfml("learn", "--bugdet", "3")
    assert capsys.readouterr().err.count("\n") == 1


def test_where_no_data_set_is_named_it_is_the_embedded_glyphs(journey, capsys):
    """The zoo was built and is evaluated without a word about data: its classes are letters that Unicode knows."""
    assert dfml("zoo", "show", journey / "zoo", "--json") == 0
    apis = json.loads(capsys.readouterr().out)["apis"]
    named = {name for api in apis for name in api["classes"]}
    letters = {unicodedata.name(chr(code), "").replace(" LETTER", "").lower() for code in range(0x10000)}
    assert len(named) >= 3  # two APIs of three classes may share some
    assert named <= letters
    assert dfml("evaluate", journey / "run", "--way", 3, "--tasks", 1, "--head", "prototype", "--json") == 0
    (result, *_) = json.loads(capsys.readouterr().out)
    assert (result["dataset"], result["part"]) == ("glyphs", "test")
