"""`armswing export client`: writes the client library for nodes in other languages."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from nodes.cli.terminal import InputError, print_line
from nodes.framework.recording.new_file import write_file
from sim_core.support.suggestion import did_you_mean

LANGUAGES = {"c": "c_client"}  # {language: folder of its files in `nodes.framework`}
FOLDER = "armswing_client"


def write_client(lang: str, folder: Path) -> None:
    """Write the client library to a folder, with an example controller and a Makefile, and print the file names.

    Raises InputError for an unknown language, or if a file exists with other content.
    """
    if lang not in LANGUAGES:
        raise InputError(
            f"--lang {lang!r}: there is no library in this language; languages are "
            f"{', '.join(LANGUAGES)}{did_you_mean(lang, LANGUAGES)}"
        )
    sources = [
        each
        for each in (files("nodes.framework") / LANGUAGES[lang]).iterdir()
        if each.name.endswith((".c", ".h", "file"))
    ]
    contents = {folder / each.name: each.read_bytes() for each in sorted(sources, key=lambda each: each.name)}
    for path, content in contents.items():
        if path.exists() and path.read_bytes() != content:
            raise InputError(f"{path} exists and was changed; choose another folder with --output, or remove the file")
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in contents.items():
        write_file(path, content)
        print_line(f"wrote {path}")
