"""A recording as pandas data frames, and as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nodes.framework.messages.topics import lookup
from nodes.framework.recording.columns import Columns, labelled
from sim_core.support.extras import with_install_hint
from sim_core.support.notebook import counted, page

if TYPE_CHECKING:
    import pandas as pd

INDEX = "time_s"


def frame(columns: Columns, attributes: Mapping[str, str]) -> pd.DataFrame:
    """Data frame of one topic: one column per number, and the index `time_s`, simulation time in s.

    attributes  entries of the attribute `DataFrame.attrs`

    Raises ModuleNotFoundError, whose message has the install command, if pandas is missing.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise with_install_hint(error) from None
    series = dict(labelled(columns))
    index = pd.Index(series.pop("log_time"), name=INDEX)
    found = pd.DataFrame(series, index=index)
    found.attrs = dict(attributes)
    return found


def recording_html(name: str, topics: Mapping[str, Columns], robot: str, runs: str, warning: str) -> str:
    """HTML of a recording: its time span, its runs, what is missing, and a table with one row per topic.

    runs  text about the runs; without it, the recording has one run, and rates are shown
    """
    times = [(float(fields["log_time"][0]), float(fields["log_time"][-1])) for fields in topics.values()]
    facts = [
        robot,
        f"t = {min(first for first, _ in times):.6g} .. {max(last for _, last in times):.6g} s" if times else "empty",
        runs or counted(1, "run"),
        counted(sum(len(fields["log_time"]) for fields in topics.values()), "message"),
        warning,
    ]
    rows = []
    for topic, fields in topics.items():
        time, row = fields["log_time"], lookup(topic)
        span = float(time[-1] - time[0]) if len(time) > 1 else 0.0
        rate = None if span <= 0.0 or runs else (len(time) - 1) / span
        rows.append((topic, "" if row is None else row.message.__name__, len(time), rate))
    return page(f"Recording {name}", facts, ("topic", "message", "messages", "rate, Hz"), rows)
