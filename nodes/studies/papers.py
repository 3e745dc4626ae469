"""Lookup of studies by name: the name of a paper's first author, or of a robot."""

from __future__ import annotations

from nodes.studies.framework.study import Study


def make_study(paper: str, *, quick: bool, spans: str) -> Study:
    """The study with this name: "nada", "man", "charmie", "lipinski", "gibbon" or "schiehlen".

    quick  whether to use shorter runs, for a first look; without effect if `spans` is given
    spans  name of a set of run lengths, such as "tiny" for tests; "" if `quick` chooses the lengths

    Raises ValueError for another name.
    """
    # Each study is imported only when requested: its libraries and robots take seconds.
    if paper == "nada":
        from nodes.studies.nada.study import study
    elif paper == "man":
        from nodes.studies.man.study import study
    elif paper == "charmie":
        from nodes.studies.charmie.study import study
    elif paper == "lipinski":
        from nodes.studies.lipinski.study import study
    elif paper == "gibbon":
        from nodes.studies.gibbon.study import study
    elif paper == "schiehlen":
        from nodes.studies.schiehlen.study import study
    else:
        raise ValueError(
            f"there is no study {paper!r}; the studies are nada, man, charmie, lipinski, gibbon, schiehlen"
        )
    return study(quick=quick, spans=spans)
