"""Lookup of studies by name: the name of a paper's first author, or of a robot."""

from __future__ import annotations

import importlib

from nodes.research.studies.framework.study import Study

STUDIES = ("nada", "man", "charmie", "lipinski", "gibbon", "schiehlen")


def make_study(paper: str, *, quick: bool, spans: str) -> Study:
    """The study with this name, one of STUDIES. Only this study's libraries and robots are imported.

    quick  whether to use shorter runs, for a first look; without effect if `spans` is given
    spans  name of a set of run lengths, such as "tiny" for tests; "" if `quick` chooses the lengths

    Raises ValueError for another name.
    """
    if paper not in STUDIES:
        raise ValueError(f"there is no study {paper!r}; the studies are {', '.join(STUDIES)}")
    made: Study = importlib.import_module(f"nodes.research.studies.{paper}.{paper}_study").study(
        quick=quick, spans=spans
    )
    return made
