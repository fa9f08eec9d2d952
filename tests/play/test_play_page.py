"""The page in a real Chromium: drop, name, predict, save, reload; broken, large, many pictures; a server that dies."""

import base64
import contextlib
import os
import re
import signal
import subprocess
import sys
from functools import partial

import pytest

from dfml import FewShotClassifier, Initialisation, learn
from dfml.data.decode import decode
from methods.colour_apis import colour_api
from play.played import COLOURS, coloured
from serving.live import serving, write_remote

sync_api = pytest.importorskip("playwright.sync_api", reason="NO PLAYWRIGHT: pip install playwright, to look at pages")
expect = sync_api.expect
PATIENCE_MS = 60_000
"""a busy machine is slow, which is nobody's fault"""
expect.set_options(timeout=PATIENCE_MS)

LITTLE = ["queries=40", "net.width=4", "distil.steps=20", "distil.batch=16"]
DROP = """(target, files) => {
  const carried = new DataTransfer();
  for (const [name, text] of files)
    carried.items.add(new File([Uint8Array.from(atob(text), letter => letter.charCodeAt(0))], name));
  for (const kind of ["dragenter", "dragover", "drop"])
    target.dispatchEvent(new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true }));
}"""


class Visit:
    """The page as a person uses it, who also looks at the console and at what goes over the network."""

    def __init__(self, browser, address, *, width=1100, scheme="light", **context):
        self.messages, self.requests, self.address = [], [], address
        self.context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, **context)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.open()

    def open(self):
        self.page.goto(self.address)
        self.page.locator("html[data-ready]").wait_for(state="attached")

    def card(self, name):
        return self.page.get_by_role("listitem", name=name, exact=True)

    def name_class(self, place, name):
        field = self.page.get_by_label("Name of the class").nth(place)
        field.fill(name)
        field.press("Enter")
        expect(self.card(name)).to_be_visible()

    def drop(self, target, files):
        target.evaluate(DROP, [[name, base64.b64encode(content).decode()] for name, content in files])

    def tray(self):
        return self.page.locator("#tray .judged")

    def settled(self, count):
        """So many pictures in the tray, and something said of each."""
        expect(self.tray()).to_have_count(count)
        expect(self.page.locator("#tray .certainty", has_text="%")).to_have_count(count)


@pytest.fixture
def visit(browser):
    """`visit(played)` opens the page; in the end nothing was complained about and nobody else was asked."""
    opened = []

    def start(played, **how):
        opened.append(Visit(browser, getattr(played, "address", played), **how))
        return opened[-1]

    yield start
    for one in opened:
        assert one.messages == []
        assert all(url.startswith((one.address, "data:")) for url in one.requests)
        one.context.close()


def pixels(tmp_path, content):
    """A picture as the library reads it."""
    (tmp_path / "picture").write_bytes(content)
    return decode(tmp_path / "picture", 16)


def violations(page):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [(rule["id"], [node["target"] for node in rule["nodes"]]) for rule in found]


def test_drop_name_predict_save_reload(play, visit, tmp_path):
    played = play()
    one = visit(played)
    one.page.get_by_role("button", name="Add a class").click()
    for place, colour in enumerate(COLOURS):
        one.name_class(place, colour)
        one.drop(one.card(colour), [(f"{colour}{n}.png", coloured(colour, n)) for n in range(3)])
    for colour in COLOURS:
        expect(one.card(colour).get_by_role("button", name=re.compile(rf"\.png, {colour}"))).to_have_count(3)
    new = [(f"new {colour}.jpg", coloured(colour, 50, kind="JPEG")) for colour in COLOURS]
    one.drop(one.page.locator("#try"), new)
    one.settled(3)
    for colour in COLOURS:
        expect(one.page.get_by_role("button", name=re.compile(f"^new {colour}.jpg: {colour}, "))).to_be_visible()
    expect(one.page.get_by_text("9 of 9 recognised when left out (100 %)")).to_be_visible()

    one.page.get_by_role("button", name=re.compile("^new red.jpg")).click()
    dialog = one.page.get_by_role("dialog")
    expect(dialog.get_by_role("row")).to_have_count(4)
    expect(dialog.locator(".nearest li")).to_have_count(2)
    assert dialog.locator(".nearest li").all_inner_texts()[0].startswith("red")
    one.page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()

    copy = one.page.get_by_role("button", name="Copy")
    expect(copy).to_be_disabled()
    one.page.get_by_role("button", name="Save the classifier").click()
    expect(copy).to_be_enabled()
    saved = FewShotClassifier.load(tmp_path / "clf")
    assert saved.classes_.tolist() == sorted(COLOURS)
    (tmp_path / "new.jpg").write_bytes(new[2][1])
    assert saved.predict(decode(tmp_path / "new.jpg", 16)[None]).tolist() == ["blue"]
    assert one.page.locator("#predict-line").inner_text() == f"dfml predict {tmp_path / 'clf'} IMAGE..."
    one.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copy.click()
    expect(one.page.get_by_role("status").filter(has_text="Copied")).to_be_visible()
    assert one.page.evaluate("() => navigator.clipboard.readText()") == f"dfml predict {tmp_path / 'clf'} IMAGE..."
    with one.page.expect_download() as download:
        one.page.get_by_role("link", name="Export ONNX").click()
    assert download.value.path().stat().st_size > 1000

    one.open()
    one.settled(3)
    expect(one.card("green").get_by_role("button", name=re.compile(r"\.png, green"))).to_have_count(3)

    again = visit(play(tmp_path / "clf"))  # another server, from what was saved
    for colour in COLOURS:
        expect(again.card(colour).locator(".picture")).to_have_count(3)
    expect(again.page.get_by_text("9 of 9 recognised when left out (100 %)")).to_be_visible()


def test_a_mistaken_example_is_marked_and_moved_by_keyboard(play, visit):
    played = play()
    played.teach()
    one = visit(played)
    one.drop(one.card("red"), [("odd.png", coloured("blue", 60))])
    odd = one.page.get_by_role("button", name=re.compile(r"^odd\.png, red; left out, it looks like blue"))
    odd.focus()
    one.page.keyboard.press("Enter")
    one.page.get_by_label("It belongs to").select_option("blue")
    expect(one.page.get_by_role("button", name="odd.png, blue", exact=True)).to_be_visible()
    expect(one.page.get_by_text("10 of 10 recognised")).to_be_visible()


def test_what_cannot_be_taken_gets_a_sentence_each_and_the_rest_goes_on(play, visit):
    played = play()
    played.teach(2)
    one = visit(played)
    huge = one.page.evaluate_handle("() => new File([new Uint8Array(50 * 2 ** 20)], 'huge.jpg')")
    one.page.locator("#try").evaluate(
        """(target, huge) => {
          const carried = new DataTransfer();
          carried.items.add(huge);
          target.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
        }""",
        huge,
    )
    one.drop(one.page.locator("#try"), [("broken.png", b"no picture"), ("fine.png", coloured("red", 9))])
    one.settled(1)
    alert = one.page.get_by_role("alert")
    expect(alert.get_by_text("huge.jpg has more than 32 MB; make it smaller first")).to_be_visible()
    expect(alert.get_by_text("broken.png cannot be read as a picture")).to_be_visible()
    alert.get_by_role("button", name="Close").click()
    expect(alert).to_be_empty()


def test_of_two_hundred_pictures_the_page_says_what_the_library_says(play, visit, run_folder, tmp_path):
    played = play()
    played.teach(2)
    one = visit(played)
    files = [(f"{n}.png", coloured(tuple(COLOURS)[n % 3], 100 + n, side=24, tint=0.3)) for n in range(200)]
    one.drop(one.page.locator("#try"), files)
    one.settled(200)
    said = one.tray().evaluate_all("cards => cards.map(card => card.getAttribute('aria-label').split(',')[0])")
    learned = [(colour, pixels(tmp_path, coloured(colour, n))) for colour in COLOURS for n in range(2)]
    classifier = Initialisation.load(run_folder).adapt([image for _, image in learned], [name for name, _ in learned])
    truth = classifier.predict([pixels(tmp_path, content) for _, content in files])
    assert sorted(said) == sorted(f"{n}.png: {label}" for n, label in enumerate(truth))
    assert set(truth) == set(COLOURS)
    one.page.get_by_label("least certain first").check()
    one.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    shares = [int(text.split()[0]) for text in one.page.locator("#tray .certainty").all_text_contents()]
    assert shares == sorted(shares)


def test_a_server_that_dies_is_told_of_and_nothing_breaks(visit, run_folder, tmp_path, browser):
    command = [sys.executable, "-m", "dfml", "play", str(run_folder), "--out", str(tmp_path / "clf"), "--no-browser"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # background shells have it ignored
    ) as server:
        try:
            said = server.stdout.readline()
            assert re.fullmatch(r"play at http://127\.0\.0\.1:\d+/[\w-]{22,}/ \(Ctrl-C ends\)\n", said)
            one = Visit(browser, said.split()[2])
            one.drop(one.card("class 1"), [("early.png", coloured("red", 0))])
            expect(one.card("class 1").locator(".picture")).to_have_count(1)
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0, "Ctrl-C is how it ends"
            assert "what was saved, asked and paid for is kept" in server.stdout.read()
        finally:
            server.kill()
    assert list(tmp_path.glob("dfml-play-*")) == [], "the pictures that were not saved are gone"
    one.drop(one.page.locator("#try"), [("late.png", coloured("red", 1))])
    expect(one.page.get_by_role("alert").get_by_text("dfml play has ended. Start it again")).to_be_visible()
    expect(one.card("class 1").locator(".picture")).to_have_count(1)
    assert all("net::ERR" in message for message in one.messages), "the browser's own words, and no exception"
    one.context.close()


def test_the_camera_teaches(play, visit):
    one = visit(play())
    one.name_class(0, "me")
    one.page.get_by_role("button", name="Use the camera for me").click()
    take = one.page.get_by_role("button", name="Take a picture")
    take.click()
    expect(one.page.get_by_text("1 taken")).to_be_visible()
    one.page.get_by_role("button", name="Done").click()
    expect(one.card("me").locator(".picture")).to_have_count(1)


def test_asking_a_served_zoo_with_faults(play, visit, tiny_zoo, tmp_path):
    faults = ["--fail-rate", "0.2", "--fail-with", "500", "503", "malformed"]
    with serving(tiny_zoo, *faults) as server:
        limits = {"retries": 4}
        manifest = write_remote(tmp_path / "a.toml", tiny_zoo, server.url, protocol="inference_v2", limits=limits)
        played = play(ask=manifest, budget=60)
        played.teach(2)
        played.add(coloured("red", 9), name="new.png")
        one = visit(played)
        switch = one.page.get_by_role("switch")
        expect(switch).not_to_be_checked()
        expect(one.page.get_by_text("0 queries of 60 allowed")).to_be_visible()
        switch.click()
        consent = one.page.get_by_role("dialog", name="Ask 3 APIs about your pictures?")
        expect(consent).to_contain_text("About 6 examples and 1 picture to try: at most 21 queries.")
        expect(consent).to_contain_text("3 are elsewhere: your pictures are sent there.")
        consent.get_by_role("button", name="Stay offline").click()
        assert server.stats()["answered"] == 0
        switch.click()
        consent.get_by_role("button", name="Ask them").click()
        expect(switch).to_be_checked()
        expect(one.page.get_by_text(re.compile(r"^(18|19|2\d) queries of 60 allowed$"))).to_be_visible()
        one.tray().first.click()
        every = one.page.get_by_role("button", name="Ask every API")
        if every.is_visible():
            every.click()
        table = one.page.get_by_role("region", name="What the APIs call it")
        expect(table.get_by_role("row").first).to_be_visible()
        assert set(table.get_by_role("rowheader").all_inner_texts()) <= {"glyphs-000", "glyphs-001", "glyphs-002"}
        expect(one.page.get_by_role("columnheader", name="with APIs")).to_be_visible()
        one.page.keyboard.press("Escape")
        switch.click()
        expect(switch).not_to_be_checked()
        before = server.stats()["answered"]
        one.drop(one.page.locator("#try"), [("later.png", coloured("blue", 9))])
        one.settled(2)
        assert server.stats()["answered"] == before <= 60


def test_what_was_learned_stands_beside_it_whatever_apis_are_called(play, visit, tmp_path):
    evil = '<img src=x onerror="document.title = 1">'
    learn([colour_api(evil), colour_api("plain", seed=1)], tmp_path / "run", settings=LITTLE)
    one = visit(play(tmp_path / "run"))
    expect(one.page.locator("#about")).to_contain_text("run: chorus, taught by 2 APIs with 80 queries")
    one.page.locator("#learned summary").click()
    learned = one.page.locator("#learned")
    expect(learned.get_by_role("rowheader", name=evil)).to_be_visible()
    expect(learned.get_by_text("40", exact=True)).to_have_count(2)
    pictures = learned.get_by_role("img", name=re.compile("^a picture that taught class"))
    assert pictures.count() >= 2
    with one.context.expect_page() as opened:
        one.page.get_by_role("link", name="Open the report").click()
    expect(opened.value.get_by_role("heading", name="What chorus learned from 2 APIs")).to_be_visible()


def test_a_new_class_that_comes_late_leaves_who_types_alone(play, visit):
    played = play()
    one = visit(played)
    held = []
    one.page.route("**/api/classes", lambda route: held.append(route))
    one.page.get_by_role("button", name="Add a class").click()
    one.page.get_by_label("Name of the class").first.fill("r")
    held[0].continue_()
    expect(one.page.get_by_label("Name of the class")).to_have_count(3)
    one.page.evaluate("() => new Promise(done => setTimeout(done, 200))")  # some frames
    one.page.keyboard.type("ed")
    one.page.keyboard.press("Enter")
    expect(one.card("red")).to_be_visible()
    assert list(played.studio.album.classes.values()) == ["red", "class 2", "class 3"]


def test_a_new_class_waits_for_its_name(play, visit):
    one = visit(play())
    one.page.get_by_role("button", name="Add a class").click()
    expect(one.page.get_by_label("Name of the class").nth(2)).to_be_focused()
    one.page.keyboard.type("late")
    one.page.keyboard.press("Enter")
    expect(one.card("late")).to_be_visible()


@pytest.mark.slow
def test_a_thousand_pictures_stay_smooth(play, visit):
    played = play()
    played.teach(2)
    one = visit(played)
    for start in range(0, 1000, 250):
        numbers = range(start, start + 250)
        one.drop(one.page.locator("#try"), [(f"{n}.png", coloured(tuple(COLOURS)[n % 3], n, side=24)) for n in numbers])
    expect(one.tray()).to_have_count(1000, timeout=300_000)
    expect(one.page.locator("#tray .certainty", has_text="%")).to_have_count(1000, timeout=300_000)
    loaded = one.page.locator("#tray img").evaluate_all("found => found.filter(image => image.complete).length")
    assert loaded < 500, "pictures out of sight are not loaded"
    before = len(one.requests)
    one.page.get_by_label("least certain first").check()
    one.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    shares = [int(text.split()[0]) for text in one.page.locator("#tray .certainty").all_text_contents()]
    assert shares == sorted(shares)
    assert not [url for url in one.requests[before:] if "/api/" in url], "sorting asks nobody"


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (375, "dark")])
def test_nothing_is_in_the_way_of_anybody(play, visit, tiny_zoo, width, scheme):
    played = play(ask=tiny_zoo)
    one = visit(played, width=width, scheme=scheme, bypass_csp=True)  # axe is not ours and makes HTML
    assert violations(one.page) == []
    played.teach(2)
    one.open()
    one.drop(one.page.locator("#try"), [(f"{n}.png", coloured("red", n)) for n in range(3)])
    one.settled(3)
    one.page.locator("#learned summary").click()
    assert violations(one.page) == []
    one.tray().first.click()
    expect(one.page.get_by_role("dialog")).to_be_visible()
    assert violations(one.page) == []
    one.page.keyboard.press("Escape")
    one.page.get_by_role("switch").click()
    expect(one.page.get_by_role("dialog", name="Ask 3 APIs")).to_contain_text("All of them compute on this machine.")
    assert violations(one.page) == []
    assert one.page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_names_of_strangers_stay_text(play, visit):
    evil = '<img src=x onerror="document.title = 1">'
    one = visit(play())
    one.name_class(0, evil)
    one.drop(one.card(evil), [(f"{evil}.png", coloured("red", 0))])
    expect(one.card(evil).locator(".picture")).to_have_count(1)
    assert one.page.evaluate("() => document.querySelectorAll('[onerror]').length") == 0
    with contextlib.suppress(Exception):
        one.page.evaluate("() => { document.body.innerHTML = '<b id=hacked>x</b>' }")
    assert one.page.locator("#hacked").count() == 0, "the policy forbids text to become HTML"
    one.messages.clear()  # of which the browser just told
