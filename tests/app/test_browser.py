"""The page in a real browser: Chromium, driven by Playwright. Nothing leaves loopback, no error is logged."""

import io
import re
import runpy
import threading
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

import catis
from catis.app import desk
from catis.app.choices import Named, load_choices
from catis.app.serving import Address, served
from catis.models import load_model
from catis.recipes import Recipe
from tests.app.test_answers import SIZE, exported
from tests.browser import SECONDS, Watched

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def url(choices, folder, free_port):
    with served(choices, Address(port=free_port), folder) as url:
        yield url


@pytest.fixture
def opened(chromium, url):
    """Opens the page as a new user, once its first answer is there."""
    users: list[Watched] = []

    def open_page(**how) -> Watched:
        user = Watched(chromium, **how)
        users.append(user)
        user.page.goto(url)
        user.page.wait_for_selector("#tile-macs")
        return user

    yield open_page
    for user in users:
        user.close()


def share(budget: float) -> str:
    """What the tile should say."""
    model = load_model("tiny-6")
    return f"{100 * catis.gmacs(model, 'catis', budget=budget) / catis.gmacs(model):.0f} %"


def number(page, tile: str) -> str:
    return page.inner_text(f"#tile-{tile} b")


def upload(page, path: Path) -> None:
    """As a user does: take the old image away, choose a file."""
    page.locator("#photo").get_by_role("button", name=re.compile("clear|remove", re.IGNORECASE)).first.click()
    page.set_input_files("#photo input[type=file]", path)


def slide(page, where: str, presses: str) -> None:
    page.locator(f"{where} input[type=range]").focus()
    for key in presses.split():
        page.keyboard.press(key)


def changed(page, selector: str, before: str) -> str:
    """The text of an element once it is another than before."""
    page.wait_for_function("([s, old]) => document.querySelector(s)?.innerText.trim() !== old", arg=[selector, before])
    return page.inner_text(selector).strip()


def test_an_upload_is_answered_and_the_slider_changes_the_numbers(opened, photos, tmp_path):
    page = opened().page
    assert number(page, "macs") == share(0.6)
    first = page.locator("#patches svg image").first.get_attribute("href")
    upload(page, photos[2])
    found = "document.querySelector('#patches svg image')?.getAttribute('href')"
    page.wait_for_function(f"old => {found} && {found} !== old", arg=first)
    assert "original" in page.inner_html("#patches")
    assert page.locator("#classes tbody tr").count() == 10
    slide(page, "#budget", "ArrowRight ArrowRight ArrowRight")
    assert changed(page, "#tile-macs b", share(0.6)) in {share(0.61), share(0.62), share(0.63)}
    page.wait_for_function(f"() => document.querySelector('#tile-macs b').innerText === '{share(0.63)}'")
    assert re.fullmatch(r"\d+ of 144", number(page, "tokens"))
    assert re.search(r"[\d.]+ ms instead of [\d.]+", page.inner_text("#tile-time"))
    slide(page, "#block", "ArrowLeft ArrowLeft")
    page.wait_for_function("() => document.querySelector('#patches').innerText.includes('after block 4')")
    page.screenshot(path=tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000


def test_model_and_method_can_be_chosen(opened):
    page = opened().page
    page.locator("#model input").click()
    page.get_by_role("option", name="tiny-12").click()
    page.wait_for_function("() => document.querySelector('#patches').innerText.includes('after block 12')")
    page.locator("#way input").click()
    page.get_by_role("option", name="pitome").click()
    page.get_by_role("tab", name="What the method went by").click()
    page.wait_for_function("() => document.querySelector('#signals').innerText.includes('score')")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_it_fits_the_screen_in_light_and_dark(opened, tmp_path, width, scheme):
    page = opened(viewport={"width": width, "height": 844}, color_scheme=scheme).page
    assert page.evaluate("() => document.scrollingElement.scrollWidth") <= width
    for part in ("#numbers", "#patches svg", "#classes table"):
        box = page.locator(part).first.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width, part
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    light = sum(map(int, re.findall(r"\d+", background)[:3])) > 3 * 128
    assert light == (scheme == "light")
    ink = page.evaluate("() => getComputedStyle(document.querySelector('#patches svg text')).fill")
    assert (sum(map(int, re.findall(r"\d+", ink)[:3])) > 3 * 128) != light
    page.screenshot(path=tmp_path / "page.png", full_page=True)


def test_the_keyboard_is_enough(opened):
    page = opened().page
    focus = "() => [document.activeElement.closest('#model,#budget,#block,#download')?.id, document.activeElement.type]"
    reached: set[str] = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        place, kind = page.evaluate(focus)
        reached.add(place)
        if (place, kind) == ("budget", "range"):
            page.keyboard.press("ArrowRight")
            changed(page, "#tile-macs b", share(0.6))
        if place == "download":
            break
    assert {"model", "budget", "block", "download"} <= reached
    with page.expect_download() as waiting:
        page.keyboard.press("Enter")
    with zipfile.ZipFile(io.BytesIO(Path(waiting.value.path()).read_bytes())) as archive:
        names = archive.namelist()
    assert {"figure.png", "figure.svg", "catis_recipe.json", "again.py", "input.png"} <= set(names)


def test_a_bad_upload_gets_a_sentence_and_the_next_one_an_answer(opened, photos, tmp_path):
    page = opened().page
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"this is not an image")
    upload(page, bad)
    page.wait_for_selector("#said .bad")
    assert "cannot be read as an image" in page.inner_text("#said")
    assert "Traceback" not in page.content()
    assert page.inner_html("#patches").strip().count("<svg") == 0
    upload(page, photos[1])
    page.wait_for_selector("#patches svg")
    assert page.locator("#said .bad").count() == 0


def test_a_slider_that_is_dragged_leaves_no_queue(opened, monkeypatch):
    page = opened().page
    asked: list[float] = []
    real = desk.answer

    def counted(choices, photo, settings):
        asked.append(settings.budget)
        return real(choices, photo, settings)

    monkeypatch.setattr(desk, "answer", counted)
    slide(page, "#budget", "ArrowRight " * 30)
    page.wait_for_function(f"() => document.querySelector('#tile-macs b').innerText === '{share(0.9)}'")
    assert asked[-1] == pytest.approx(0.9)
    assert len(asked) < 25


def test_two_users_at_once_see_their_own(opened, photos):
    one, two = opened().page, opened().page
    upload(one, photos[0])
    upload(two, photos[3])
    slide(one, "#budget", "ArrowRight " * 5)
    slide(two, "#budget", "ArrowLeft " * 5)
    one.wait_for_function(f"() => document.querySelector('#tile-macs b')?.innerText === '{share(0.65)}'")
    two.wait_for_function(f"() => document.querySelector('#tile-macs b')?.innerText === '{share(0.55)}'")
    pictures = [page.locator("#patches svg image").first.get_attribute("href") for page in (one, two)]
    assert pictures[0] != pictures[1]
    slide(one, "#block", "ArrowLeft")
    one.wait_for_function("() => document.querySelector('#patches').innerText.includes('after block 5')")
    assert "after block 6" in two.inner_text("#patches")
    assert one.locator("#patches svg image").first.get_attribute("href") == pictures[0]


def test_the_other_tabs(opened):
    page = opened().page
    page.get_by_role("tab", name="Accuracy").click()
    page.wait_for_selector("#curves >> text=Nothing to draw yet")
    page.get_by_role("tab", name="Diagnosis").click()
    page.click("#diagnose")
    page.wait_for_selector("#diagnosis .panels svg")
    assert "too few images to tell" in page.inner_text("#diagnosis")


def test_a_file_of_catis_export_beside_its_model(chromium, folder, free_port, tmp_path):
    reduction = catis.hosts.find(catis.apply(load_model("tiny-6"), "tome", r=8)).reduction
    file = exported(tmp_path / "a.onnx", Recipe(reduction, name="tiny-6"), preprocessing=SIZE, labels=["a", "b", "c"])
    both = load_choices([Named(str(file)), Named("tiny-6")])
    with served(both, Address(port=free_port + 2), folder) as url:
        user = Watched(chromium)
        user.page.goto(url)
        user.page.wait_for_selector("#tile-macs")
        assert "ONNX Runtime" in user.page.inner_text("#numbers")
        assert "after block 6" in user.page.inner_text("#patches")
        assert number(user.page, "tokens") == "96 of 144"
        user.close()


def test_nothing_outside_its_folder_is_served(url):
    for path in ("/etc/hostname", str(Path(__file__)), str(Path(desk.__file__))):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}gradio_api/file={path}", timeout=SECONDS)
        assert refused.value.code in (403, 404)


def test_it_listens_on_loopback_alone(url):
    assert url.startswith("http://127.0.0.1:")


def test_the_example_of_a_space_serves_the_page(monkeypatch, free_port):
    seen: list[str] = []
    monkeypatch.setenv("CATIS_MODELS", "tiny-6")
    monkeypatch.setenv("GRADIO_SERVER_NAME", "127.0.0.1")
    monkeypatch.setenv("GRADIO_SERVER_PORT", str(free_port + 1))
    space = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "space" / "app.py"))
    space["main"](lambda url: seen.append(urllib.request.urlopen(url, timeout=SECONDS).read().decode()))
    assert "catis" in seen[0]
    assert threading.active_count() < 100
