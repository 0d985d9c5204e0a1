"""Figures with sliders show what qcore computes at the chosen point, and are light."""

import functools
import http.server
import json
import os
import shutil
import threading

import numpy as np
import pytest
from scipy import stats

from derivations.claims.records import SLIDERS_MIME_TYPE
from qcore import admission, qed
from qcore.deferral import asymptotics, dsrt, esrt
from qcore.idling import FluidControlProblem

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
REQUIRED = os.environ.get("REQUIRE_BROWSER") == "1"
# Stored are four digits of the value and of the place.
TOLERANCE = 2e-3
DECAY = admission.PowerDecay(2)
X = 0.02 * 200 ** (23 / 32)
GAMMA = stats.gamma(3, scale=1 / 3)
MOVE = """([position, text]) => {
  const row = document.querySelectorAll(".sliders-controls > div")[position];
  const input = row.querySelector("input"), said = row.querySelector("span");
  for (let at = 0; at <= Number(input.max); at += 1) {
    input.value = at;
    input.dispatchEvent(new Event("input"));
    if (said.textContent === text) return;
  }
  throw Error(`no place ${text}`);
}"""


def fluid(power, law, price):
    return FluidControlProblem(
        1.2, 1.0, 1.0, lambda b: 1.2 * b**power, holding_cost=price, patience=law
    )


def marked(problem):
    return problem.optimal_busy_fraction, problem.optimal_cost


def best_spacing(*system):
    best = dsrt.optimal_spacing(*system, 1e3)
    return best.spacing, best.blocking_probability


def by_order(servers, gamma, order):
    """Return the expansion and its error."""
    expansion = qed.delay_probability(servers, gamma, DECAY, order)
    return expansion, abs(expansion - exact_delay(servers, gamma))


def exact_delay(servers, gamma):
    return admission.delay_probability(servers, 1 - gamma / servers**0.5, DECAY)


def least_error(servers, gamma):
    errors = [by_order(servers, gamma, order)[1] for order in range(21)]
    return np.argmin(errors), min(errors)


def least_loss(servers, deferrals, beta):
    """Return sqrt(K) times the least loss."""
    load = servers + beta * servers**0.5
    best = esrt.optimal_rearrival_rate(servers, deferrals, load, 1.0, 1e3)
    return servers**0.5 * best.blocking_probability


# Chapter, where the sliders are put, and what is to be read there.
CASES = {
    "deferral/dsrt_in_general": (
        ["5", "3", "1.1", "0.901"],
        {
            "fixed": lambda: dsrt.blocking_probability(5, 3, 5.5, 1.0, X),
            "exponential": lambda: esrt.blocking_probability(5, 3, 5.5, 1.0, 1 / X),
        },
        lambda: best_spacing(5, 3, 5.5, 1.0),
    ),
    "admission/global_and_local_control": (
        ["10", "0.95", "0.25"],
        {
            control: functools.partial(
                admission.delay_probability, 10, 0.95, admission.ModifiedDrift(0.25), control
            )
            for control in ("global", "local")
        },
        None,
    ),
    "idling/holding_costs": (
        ["2", "gamma(3)", "0.5", "0.52"],
        {"cost": lambda: fluid(2.0, GAMMA, 0.5).cost(0.52)},
        lambda: marked(fluid(2.0, GAMMA, 0.5)),
    ),
    "admission/optimal_truncation": (
        ["power decay", "0.75", "4", "6"],
        {
            "exact": lambda: exact_delay(4, 0.75),
            "expansion": lambda: by_order(4, 0.75, 6)[0],
            "error": lambda: by_order(4, 0.75, 6)[1],
        },
        lambda: least_error(4, 0.75),
    ),
    "deferral/many_deferrals": (
        ["-0.5", "64", "1.5"],
        {
            "exact": lambda: least_loss(64, 12, -0.5),
            "limit": lambda: asymptotics.scaled_waiting_room_blocking(-0.5, 1.5),
        },
        None,
    ),
}


@pytest.mark.parametrize("chapter", CASES)
def test_the_data_are_light_and_complete(root, chapter):
    notebook = json.loads((root / f"derivations/{chapter}.ipynb").read_text("utf-8"))
    (data,) = [
        output["data"][SLIDERS_MIME_TYPE]
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
        if SLIDERS_MIME_TYPE in output.get("data", {})
    ]
    assert len(json.dumps(data)) < 300_000
    choices = 1
    for _, values in data["sliders"]:
        choices *= len(values)
    assert len(data["found"]) == choices
    places = len(data["x"]["places"].split())
    for found in data["found"]:
        assert len(found["curves"]) == len(data["curves"])
        for curve in found["curves"]:
            assert len(curve.split()) == places
            assert "nan" not in curve


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("chapter", CASES)
def test_a_moved_slider_says_what_qcore_computes(root, opened, chapter):
    page = opened(chapter)
    places, curves, best = CASES[chapter]
    page.wait_for_selector(".sliders:not([hidden])")
    for position, text in enumerate(places):
        page.evaluate(MOVE, [position, text])
    for name, value in curves.items():
        said = page.inner_text(f".sliders-told [data-curve='{name}']").split()[-1]
        assert float(said) == pytest.approx(float(value()), rel=TOLERANCE), name
    if best is not None:
        said = page.inner_text(".sliders-told [data-mark]").split()
        place, value = best()
        assert float(said[-2].rstrip(":")) == pytest.approx(place, rel=TOLERANCE)
        assert float(said[-1]) == pytest.approx(value, rel=TOLERANCE)


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_keyboard_moves_a_slider(opened):
    page = opened("idling/holding_costs")
    page.focus(".sliders-controls input")
    before = page.inner_text(".sliders-told"), page.get_attribute(".sliders path", "d")
    page.keyboard.press("ArrowRight")
    after = page.inner_text(".sliders-told"), page.get_attribute(".sliders path", "d")
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert page.get_attribute(".sliders-controls input", "aria-valuetext") == "2"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def opened(root):
    """Open a chapter of the built book in Chromium."""
    html = root / "_build" / "html"
    if CHROMIUM is None or not html.is_dir():
        if REQUIRED:
            pytest.fail("a built book and Chromium are needed")
        pytest.skip("a built book and Chromium are needed")
    from playwright.sync_api import sync_playwright

    handler = functools.partial(QuietHandler, directory=str(html))
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        sync_playwright() as playwright,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )

        def open_chapter(name):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(120_000)
            page.goto(f"http://127.0.0.1:{server.server_port}/derivations/{name}.html")
            return page

        yield open_chapter
        browser.close()
        server.shutdown()
