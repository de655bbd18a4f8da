"""Hooks of mkdocs: pages of the API from docstrings, and pages that show source files which other pages link to."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))
from api import PACKAGES, api_page  # noqa: E402

LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")
BOOST = {"source/": 0.2, "results/": 0.2, "": 2}  # of pages in the search's order, by how their path begins
KINDS = {".py": "python", ".toml": "toml", ".c": "c", ".h": "c", ".json": "json", ".txt": "text"}


def on_files(files: Files, config: Any) -> Files:
    for package in PACKAGES:
        files.append(File.generated(config, f"api/{package}.md", content=api_page(package)))
    seen: set[Path] = set()
    todo = [
        Path(config["docs_dir"]) / file.src_uri for file in files.documentation_pages() if file.generated_by is None
    ]
    while todo:
        page = todo.pop()
        for target in outside(page, page.read_text(encoding="utf-8")):
            if target not in seen:
                seen.add(target)
                files.append(File.generated(config, place_of(target), content=source_page(target)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    here = Path(config["docs_dir"]) / page.file.src_uri
    page.meta["search"] = {"boost": next(b for start, b in BOOST.items() if page.file.src_uri.startswith(start))}
    if page.file.generated_by is not None:
        return markdown
    up = "../" * page.file.src_uri.count("/")

    def moved(match: re.Match[str]) -> str:
        target = resolve(here, match[2])
        if target is None or in_site(target):
            return match[0]
        return f"{match[1]}{up}{place_of(target)}{match[4]}"

    return LINK.sub(moved, markdown)


def on_post_build(config: Any) -> None:
    """Stop if a link of the site leads to no file of it: mkdocs lets links to what it excludes pass."""
    site = Path(config["site_dir"])
    pages = [page for page in site.rglob("*.html") if page.name not in ("report.html", "404.html")]
    dead = [
        f"{page.relative_to(site)}: {link}"
        for page in pages
        for link in re.findall(r'(?:href|src)="(?![a-z]+:|/)([^"#?]+)', page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    if dead:
        raise PluginError("dead links in the site: " + "; ".join(dead))


def resolve(page: Path, link: str) -> Path | None:
    """The file that a link of a page leads to; None if it leads elsewhere."""
    if re.match(r"[a-z]+:", link):
        return None
    found = (page.parent / link).resolve()
    return found if found.exists() and found.is_relative_to(ROOT) else None


def outside(page: Path, text: str) -> list[Path]:
    """The files of the repository, not of the docs, that a page links to."""
    found = [resolve(page, match[2]) for match in LINK.finditer(text)]
    return [path for path in found if path is not None and not in_site(path)]


def in_site(path: Path) -> bool:
    """Whether a file is a page or a file of the site itself."""
    return path.is_relative_to(ROOT / "docs") and not path.is_relative_to(ROOT / "docs" / "make")


def place_of(path: Path) -> str:
    return f"source/{path.relative_to(ROOT).as_posix()}.md"


def source_page(path: Path) -> str:
    """A file as a page: Markdown as text, code as code; a folder as the list of what is in it."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        return f"# {name}/\n\n" + "".join(f"- `{p.name}`\n" for p in sorted(path.iterdir()) if p.name[0] not in "._")
    text = path.read_text(encoding="utf-8")
    fence = "````" if "```" in text else "```"
    return f"# {name}\n\n{fence}{KINDS.get(path.suffix, 'text')}\n{text}\n{fence}\n"
