"""Parameters of a running node: values, limits, changes, and the check of changes on a separate thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, get_type_hints

import msgspec

from nodes.framework.hosting.wakeup import WakeupPipe
from nodes.framework.plan.key_checks import PlanError, convert
from nodes.framework.transport.service import Request
from nodes.node import Context, Node
from sim_core.tables import ranges_of


class NodeParameters:
    """The parameters of one node.

    values  the node's `Params`
    """

    def __init__(self, name: str, kind: type[msgspec.Struct], planned: dict[str, Any]) -> None:
        self._where = f"node {name!r}: params"
        self.values = convert(planned, kind, self._where)

    def plain(self) -> dict[str, Any]:
        """The parameters as built-in Python types."""
        plain: dict[str, Any] = msgspec.to_builtins(self.values)
        return plain

    def limits(self) -> dict[str, dict[str, Any]]:
        """{parameter: {"unit": text, "low": limit, "high": limit}}; both limits are inclusive, and None means no
        limit.
        """
        found = {}
        for name, kind in get_type_hints(type(self.values), include_extras=True).items():
            limits = next(ranges_of(kind), None)
            found[name] = {
                "unit": limits.unit if limits else "",
                "low": limits.low if limits else None,
                "high": limits.high if limits else None,
            }
        return found

    def changed(self, changed_values: dict[str, Any]) -> Any:
        """A copy of `values` with some values changed. Raises ValueError with a one-line message for wrong values."""
        try:
            return convert({**self.plain(), **changed_values}, type(self.values), self._where)
        except PlanError as error:
            raise ValueError(str(error)) from None

    def require_fitting(self, changed_values: dict[str, Any], node: type[Node], context: Context) -> None:
        """Raise ValueError with a one-line message for changed parameters that a launch would refuse.

        May be called from any thread.
        """
        params = self.changed(changed_values)
        plan, plain = context.plan, msgspec.to_builtins(params)
        if plan is None or not context.robot:
            return  # no plan to check against
        replace = msgspec.structs.replace
        nodes = [replace(each, params=plain) if each.name == context.name else each for each in plan.nodes]
        try:
            node.check(params, replace(plan, nodes=nodes))
        except ValueError as error:
            raise ValueError(f"{self._where}: {error}") from None


class ParameterChecks:
    """Checks `set_parameters` requests on a separate thread.

    Call `begin` for each request. When a check has ended, the pipe `wake` becomes readable: then call `take`.

    require  function that raises ValueError for invalid changed parameters; called on the separate thread
    """

    def __init__(self, require: Callable[[dict[str, Any]], None], wake: WakeupPipe) -> None:
        self._require, self._wake = require, wake
        self._checked: deque[tuple[Request, str]] = deque()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parameters")  # one worker keeps the order

    def begin(self, request: Request) -> None:
        """Start to check the parameters of a request."""

        def done(check: Future[None]) -> None:
            if check.cancelled():
                return
            error = check.exception()
            refusal = "" if error is None else str(error) if isinstance(error, ValueError) else f"{error!r}"
            self._checked.append((request, refusal))
            self._wake.set()

        self._pool.submit(self._require, request.call.args).add_done_callback(done)

    def take(self) -> Iterator[tuple[Request, str]]:
        """Yield (request, reason for refusing it) for each request checked since the previous call.

        The reason is "" if the request is valid.
        """
        while self._checked:
            yield self._checked.popleft()

    def close(self) -> None:
        """Wait for the check in progress, and cancel all others."""
        self._pool.shutdown(cancel_futures=True)
