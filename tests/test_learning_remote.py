"""`dfml learn` on servers: what is refused at the start, and how it goes on when some of them fail."""

import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
import torch

import dfml
from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger import Ledger, Metered, spending
from dfml.cli import main
from dfml.errors import ConfigError, DfmlError, Refused, Unreachable
from dfml.events import ApiFailed, Step
from dfml.methods.chorus import asking
from outcomes import same
from strangers import CLASSES, model, serving

SMALL = ["queries=30", "net.width=4", "distil.steps=3"]
pytestmark = pytest.mark.usefixtures("no_long_rests")


def colours(request):
    """V2 for images of 16x16: the honest server on their mean colours."""
    (tensor,) = request.json()["inputs"]
    images = np.frombuffer(request.tail, "<f4").reshape(tensor["shape"])
    probs = model(images.reshape(len(images), 3, 4, 4, 4, 4).mean((3, 5)))
    return (
        200,
        {},
        {"outputs": [{"name": "p", "datatype": "FP32", "shape": [*probs.shape], "data": probs.ravel().tolist()}]},
    )


def manifest(folder, urls, *lines, classes=CLASSES):
    text = f"[defaults]\nprotocol = 'inference_v2'\nmodel = 'm'\nimage = [3, 16, 16]\nclasses = {list(classes)}\n"
    text += "limits.retries = 2\n" + "\n".join(lines) + "\n"
    for number, url in enumerate(urls):
        text += f"[apis.api-{number}]\nurl = '{url}'\n"
    (folder / "apis.toml").write_text(text)
    return folder / "apis.toml"


def test_without_a_budget_nothing_is_sent_and_the_estimate_is_told(tmp_path):
    with serving(colours) as server:
        path = manifest(tmp_path, [server.url] * 2, "price = 2.0")
        with pytest.raises(
            ConfigError, match=r"2 of 2 APIs .* chorus would send 60 queries for 0\.12 USD.*--budget 60"
        ):
            dfml.learn(path, tmp_path / "run", settings=SMALL)
        assert not server.requests
        assert not (tmp_path / "run").exists()
        dfml.learn(path, tmp_path / "free", method="random")  # costs nothing, so it needs no budget
        dfml.learn(path, tmp_path / "run", settings=SMALL, budget=60)
        assert spending(tmp_path / "run")["queries"] == 60


def test_budgets_of_the_manifest_bind_each_api(tmp_path):
    with serving(colours) as server:
        path = manifest(tmp_path, [server.url] * 2, "budget = 25")
        path.write_text(path.read_text() + "budget = 21\n")
        dfml.learn(path, tmp_path / "run", settings=SMALL)
        spent = {name: api["queries"] for name, api in spending(tmp_path / "run")["apis"].items()}
        assert spent == {"api-0": 25, "api-1": 21}


def test_servers_that_are_down_at_the_start_are_one_sentence(tmp_path, capsys):
    with serving(colours) as server:
        url = server.url
    path = manifest(tmp_path, [url, url])
    assert main(["learn", str(path), "--budget", "60", "--out", str(tmp_path / "run")]) == 1
    error = capsys.readouterr().err.strip()
    assert error.count("\n") == 0
    assert f"api-0: {url} cannot be reached" in error
    assert "none of the 2 APIs can be asked" in error
    assert not (tmp_path / "run").exists(), "the same command can be given again"


def test_classes_that_do_not_fit_the_answers_are_one_sentence(tmp_path):
    with serving(colours) as server:
        path = manifest(tmp_path, [server.url], classes=("one", "two"))
        with pytest.raises(
            Unreachable, match=r"none of the 1 APIs answered .*has 2 classes \(one, two, …\), but it answers 3"
        ):
            dfml.learn(path, tmp_path / "run", settings=SMALL, budget=60)
        assert sum(request.method == "POST" for request in server.requests) == 1


def test_a_missing_variable_is_named_before_anything_is_sent(tmp_path):
    with serving(colours) as server:
        path = manifest(tmp_path, [server.url], "headers.Key = '${NOT_SET_AT_ALL}'")
        with pytest.raises(
            ConfigError, match=r"\[apis.api-0\]: the header Key needs the environment variable NOT_SET_AT_ALL"
        ):
            dfml.learn(path, tmp_path / "run", settings=SMALL, budget=60)
        assert not server.requests


def test_a_dead_api_delays_no_other_and_is_taken_up_when_it_is_back(tmp_path):
    """The dead one comes back when the other has answered everything: nothing of either is missing in the end."""
    answered, up = [], threading.Event()

    def respond(request):
        reply = colours(request)
        answered.append(request.json()["inputs"][0]["shape"][0])
        if sum(answered) >= 30:
            up.set()
        return reply

    with serving(respond) as well, serving(lambda r: colours(r) if up.is_set() else (503, {}, b"")) as ill:
        path = manifest(tmp_path, [well.url, ill.url])
        # More than 60, because a connection that ends before its 503 is read leaves a request in doubt.
        faulty = dfml.learn(path, tmp_path / "faulty", settings=SMALL, budget=600)
        assert spending(tmp_path / "faulty")["queries"] == 60
        calm = dfml.learn(path, tmp_path / "calm", settings=SMALL, budget=600)
    assert same(faulty, calm), "faults that pass change no bit"


def test_learning_goes_on_without_an_api_that_stays_dead_and_uses_what_it_said(tmp_path):
    def respond(request):
        count = sum(r.method == "POST" for r in ill.requests)
        return colours(request) if count <= 3 else (503, {}, b"over")

    failed = []
    with serving(colours) as well, serving(respond) as ill:
        path = manifest(tmp_path, [well.url, ill.url], "limits.images_per_request = 5", "limits.concurrency = 1")

        def watch(event):
            if isinstance(event, ApiFailed):
                failed.append(event)

        dfml.learn(path, tmp_path / "run", settings=SMALL, budget=60, on_event=watch)
    assert [event.api for event in failed] == ["api-1"]
    assert "it answered 503: over" in failed[0].reason
    spent = {name: api["queries"] for name, api in spending(tmp_path / "run")["apis"].items()}
    assert spent == {"api-0": 30, "api-1": 15}


def test_answers_of_a_call_that_failed_are_used(tmp_path, rng):
    """An API that answers 3 of 10 images and dies: the table holds exactly those 3."""

    class Dying:
        spec = ApiSpec(name="dying", classes=("a", "b"), image=(3, 16, 16))

        def __call__(self, images):
            raise AssertionError

        def answers_in_parts(self, images):
            yield [2, 5, 7], torch.tensor([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])
            raise Refused("dying: no more")

    images = (torch.rand(10, 3, 16, 16, generator=rng) * 255).to(torch.uint8)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        answers = asking.ask_all([Metered(Dying(), ledger)], images, rows=[torch.arange(10)])
    assert answers.asked[:, 0].nonzero().flatten().tolist() == [2, 5, 7]
    assert answers.probs[5, 0].tolist() == [0.25, 0.75]


def _note_failure(names, event):
    if isinstance(event, ApiFailed):
        names.append(event.api)


def test_bidf_mkd_goes_on_with_the_others_when_the_first_api_it_visits_is_dead(tmp_path):
    settings = [
        "recovery.steps=2", "recovery.directions=2", "recovery.estimator=sphere", "recovery.images_per_class=4",
        "recovery.early_stop=false", "recovery.limit=100", "recovery.filters=4", "recovery.latent=8", "net.width=4",
        "memory.require_agreement=false", "schedule.visits=2", "schedule.iterations=3", "replay.shot=1",
        "replay.query=1", "replay.batch=1", "replay.inner_steps=1", "distil.inner_steps=1",
    ]  # fmt: skip
    visited = set()
    for dead in (0, 1):  # whichever comes first
        with serving(colours) as well, serving(lambda request: (500, {}, b"dead")) as ill:
            urls = [ill.url, well.url] if dead == 0 else [well.url, ill.url]
            folder = tmp_path / str(dead)
            folder.mkdir()
            path = manifest(folder, urls)
            failed = []
            watch = partial(_note_failure, failed)
            dfml.learn(path, folder / "run", method="bidf-mkd", settings=settings, budget=10_000, on_event=watch)
            spent = {name: api["queries"] for name, api in spending(folder / "run")["apis"].items()}
            assert spent[f"api-{1 - dead}"] > 0 == spent[f"api-{dead}"]
            visited |= set(failed)
    assert visited, "the dead one was asked at least in one order"


def test_a_disk_that_fills_up_is_one_sentence_and_loses_nothing(tmp_path):
    """A run under a file-size limit ends with a sentence; with room again it pays only for the rest."""
    with serving(colours) as server:
        path = manifest(tmp_path, [server.url], "limits.images_per_request = 5")
        command = [
            sys.executable, "-c",
            "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2);"
            "from dfml.cli import main; sys.exit(main(sys.argv[2:]))",
        ]  # fmt: skip
        learn = ["learn", str(path), "--budget", "400", "--set", "queries=400", "--set", "distil.steps=2"]
        learn += ["--set", "net.width=4", "--out", str(tmp_path / "run")]
        full = subprocess.run([*command, "150000", *learn], capture_output=True, text=True, check=False)
        assert full.returncode == 1
        assert "Traceback" not in full.stderr
        assert "see that the disk has space" in full.stderr.strip().splitlines()[-1], full.stderr
        kept = spending(tmp_path / "run")["queries"]
        assert kept > 0
        before = _images(server)
        doubt = spending(tmp_path / "run")["in_doubt"]
        assert before == kept + doubt
        again = subprocess.run([*command, "-1", *learn, "--resume"], capture_output=True, text=True, check=False)
        assert (again.returncode, _images(server)) == (3, 400), "what is in doubt counts against the budget"
        assert f"--forgive-doubt, so that the {doubt} in doubt do not count" in " ".join(again.stdout.split())
        learn += ["--resume", "--forgive-doubt"]
        again = subprocess.run([*command, "-1", *learn], capture_output=True, text=True, check=False)
        assert again.returncode == 0, again.stderr
        assert _images(server) - before == 400 - kept


def _images(server):
    return sum(r.json()["inputs"][0]["shape"][0] for r in server.requests if r.method == "POST")


def test_an_interrupted_run_stops_at_once_and_can_be_resumed(tmp_path):
    """That this test ends is what it tests: the server asks everybody to wait for a minute."""

    class Enough(Exception):
        pass

    def stop(event):
        if isinstance(event, Step):
            raise Enough

    with serving(lambda request: (429, {"Retry-After": "60"}, b"")) as slow, serving(colours) as quick:
        path = manifest(tmp_path, [slow.url, quick.url])
        with pytest.raises((Enough, DfmlError)):
            dfml.learn(path, tmp_path / "run", settings=SMALL, budget=60, on_event=stop)
    assert spending(tmp_path / "run")["apis"]["api-1"]["queries"] == 30


def test_a_servers_words_are_printed_as_they_are(tmp_path, capsys):
    """Not as markup, in which a closing tag without an opening one would be an error."""
    with serving(lambda request: (400, {}, {"error": "[/red] no [b] such [link=x]tensor"})) as server:
        path = manifest(tmp_path, [server.url])
        assert main(["learn", str(path), "--budget", "30", "--out", str(tmp_path / "run")]) == 1
    out = " ".join("".join(capsys.readouterr()).split())
    assert "[/red] no [b] such [link=x]tensor" in out
