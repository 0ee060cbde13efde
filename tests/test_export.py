"""A notebook exported as a page still tells its story: no kernel, no JavaScript library, no network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Route

LESSONS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("[!.]*.ipynb"))


def twins(notebook: Path) -> list[str]:
    """The stored twins of a notebook."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    pages = [output.get("data", {}).get("text/html", []) for cell in cells for output in cell.get("outputs", [])]
    texts = ["".join(page) for page in pages]
    return [text for text in texts if "data-emqkit-twin" in text]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", LESSONS, ids=lambda path: path.stem)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_exported_notebook_reads_without_a_network(notebook: Path, theme: str, lab: Lab, tmp_path: Path) -> None:
    from nbconvert import HTMLExporter

    page_file = tmp_path / f"{notebook.stem}.html"
    body, _ = HTMLExporter(theme=theme).from_filename(str(notebook))
    page_file.write_text(body, "utf-8")
    page = lab.context.new_page()
    try:
        wanted: list[str] = []

        def refuse(route: Route) -> None:
            if route.request.url.startswith("file:"):
                route.continue_()
            else:
                wanted.append(route.request.url)
                route.abort()

        page.route("**/*", refuse)
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.goto(page_file.as_uri(), wait_until="load")
        shown = page.locator(".emqkit-twin")
        assert shown.count() == sum(page.count("data-emqkit-twin") for page in twins(notebook)) > 0
        for number in range(shown.count()):
            twin = shown.nth(number)
            assert twin.is_visible()
            assert twin.locator("summary").count() > 0
            if "There is no key yet." not in (twin.locator("details[open]").first.text_content() or ""):
                picture = twin.locator("details[open] table").first
                assert picture.is_visible()
                box = picture.bounding_box()
                assert box is not None and box["width"] > 250 and box["height"] > 20  # one row, at least
            start = twin.locator("details").first
            was = start.evaluate("details => details.open")
            start.locator("> summary").click()
            assert start.evaluate("details => details.open") is not was
    finally:
        page.close()
