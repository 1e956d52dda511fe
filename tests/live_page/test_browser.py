"""The page in a real Chromium: opened, updated by a running stream, reconnected after a restart, at two widths."""

import shutil
import time

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("selenium")

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from keyspread.live_page.history import RunHistory
from keyspread.live_page.server import LivePage
from page_batches import made

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE, NARROW = (1200, 900), (400, 900)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = next(filter(None, map(shutil.which, NAMES)), None)
    driver = shutil.which("chromedriver")
    if found is None or driver is None:
        missing = "chromedriver" if found else "Chromium"
        pytest.skip(f"no {missing} on this machine: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = found
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    running = webdriver.Chrome(options=options, service=Service(driver))
    yield running
    running.quit()


@pytest.fixture(autouse=True)
def nothing_wrong_in_the_console(browser):
    size(browser, *WIDE)
    browser.get_log("browser")
    yield
    problems = [
        entry["message"]
        for entry in browser.get_log("browser")
        if entry["level"] == "SEVERE" and "favicon" not in entry["message"] and "ERR_CONNECTION" not in entry["message"]
        and "ERR_INCOMPLETE_CHUNKED" not in entry["message"]
    ]  # fmt: skip
    assert problems == []


@pytest.fixture
def served():
    history = RunHistory("look-ahead, 2 workers: clicks")
    page = LivePage(history, port=0)
    yield history, page
    page.close()


def size(browser, width, height, dark=False):
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def wait(browser, condition, seconds=30):
    return WebDriverWait(browser, seconds, poll_frequency=0.1).until(lambda _: condition())


def text(browser, css):
    return browser.find_element(By.CSS_SELECTOR, css).text


def shows(browser, css, *parts):
    return all(part in text(browser, css) for part in parts)


def test_opened_and_updated(browser, served):
    history, page = served
    browser.get(page.url)
    wait(browser, lambda: shows(browser, "#state", "Live"))
    assert "No batch yet." in text(browser, "#when")
    history.add(made(0, (6, 4), (9, 1), hottest=(("anna", 5), (None, 2), ("<b>", 1)), workers_of=((0, 1), (0,), (1,))))
    wait(browser, lambda: shows(browser, "#when", "Batch 0"))
    assert text(browser, "#verdict") == "Plain hashing would have kept one worker busy 1.5 × as long in the last batch."
    rows = [" ".join(row.text.split()) for row in browser.find_elements(By.CSS_SELECTOR, "#loads tbody tr")]
    assert rows == ["0 1.20 × 6 1.80 ×", "1 0.80 × 4 0.20 ×"]
    keys = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#keys tbody tr")]
    assert keys == ["anna 50.0 % 1.00 0, 1", "null 20.0 % 0.40 0", "<b> 10.0 % 0.20 1"]
    history.add(made(1, (5, 5), (5, 5)))
    wait(browser, lambda: shows(browser, "#when", "Batch 1"))
    assert "as even" in text(browser, "#verdict")
    assert browser.execute_script("return document.querySelectorAll('#busiest path').length") == 2
    history.end()
    wait(browser, lambda: shows(browser, "#state", "The stream has ended"))


def test_reconnected_after_a_restart(browser):
    history = RunHistory("first")
    page = LivePage(history, port=0)
    history.add(made(3))
    browser.get(page.url)
    wait(browser, lambda: shows(browser, "#when", "Batch 3"))
    port = page.port
    page.close()
    wait(browser, lambda: shows(browser, "#state", "Connection lost: trying again"))
    again = RunHistory("second")
    again.add(made(8))
    page = LivePage(again, port=port)
    try:
        wait(browser, lambda: shows(browser, "#when", "Batch 8") and shows(browser, "#state", "Live"))
        assert text(browser, "#title") == "second"
    finally:
        page.close()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(("width", "height"), [WIDE, NARROW])
def test_readable_at_two_widths_light_and_dark(browser, served, width, height, dark):
    history, page = served
    for number in range(30):
        history.add(made(number, [50] * 15 + [60], [40] * 15 + [210], hottest=(("a-very-long-key" * 6, 200),)))
    size(browser, width, height, dark)
    browser.get(page.url)
    wait(browser, lambda: shows(browser, "#when", "Batch 29"))
    # Nothing is wider than the screen, and nothing is cut off on the right.
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    beyond = browser.execute_script(
        "return [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
        ".map(e => e.tagName + '.' + e.className)"
    )
    assert beyond == []
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)"
    )
    assert browser.execute_script(CONTRASTS) == []


# WCAG 2: text needs a contrast of 4.5 : 1 with what is behind it.
CONTRASTS = """
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
  .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
  if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
const bad = [];
for (const e of document.querySelectorAll("h1, h2, p, dt, dd, small, th, td, caption, button, .tools a, #state")) {
  if (!e.textContent.trim() || e.hidden) continue;
  const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) bad.push(e.tagName + " " + e.textContent.trim().slice(0, 20) + " " + ratio.toFixed(2));
}
return bad;
"""


def test_by_keyboard_and_for_screen_readers(browser, served):
    history, page = served
    for number in range(5):
        history.add(made(number, (5 + number, 5), (9, 1)))
    browser.get(page.url)
    wait(browser, lambda: shows(browser, "#when", "Batch 4"))
    chart = browser.find_element(By.ID, "busiest")
    assert chart.get_attribute("role") == "slider"
    assert chart.accessible_name == "Imbalance: busiest worker, × even share"
    chart.send_keys(Keys.HOME)
    assert "batch 0: keyspread 1.00 ×, plain hashing 1.80 ×" in chart.get_attribute("aria-valuetext")
    chart.send_keys(Keys.ARROW_RIGHT)
    assert "batch 1: keyspread 1.09 ×" in chart.get_attribute("aria-valuetext")
    history.add(made(5))  # news do not move the cursor
    wait(browser, lambda: shows(browser, "#when", "Batch 5"))
    assert "batch 1: " in chart.get_attribute("aria-valuetext")
    # Everything that does something can be reached by Tab, and has a name.
    browser.execute_script("document.activeElement.blur(); scrollTo(0, 0)")
    reached = []
    for _ in range(12):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        focused = browser.switch_to.active_element
        reached.append(focused.get_attribute("id") or focused.get_attribute("class"))
        if focused.tag_name != "body":
            assert focused.accessible_name, reached[-1]
    assert {"skip", "pause", "save", "busiest", "rate", "seconds", "scroll", "workers"} <= set(reached)
    assert text(browser, "#state") == "Live"
    assert browser.find_element(By.ID, "state").get_attribute("role") == "status"
    pause = browser.find_element(By.ID, "pause")
    pause.send_keys(Keys.ENTER)
    wait(browser, lambda: shows(browser, "#state", "Paused"))
    assert pause.get_attribute("aria-pressed") == "true"
    history.add(made(6))
    time.sleep(1)
    assert "Batch 5" in text(browser, "#when")
    pause.send_keys(Keys.ENTER)
    wait(browser, lambda: shows(browser, "#when", "Batch 6"))
