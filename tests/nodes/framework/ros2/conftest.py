"""The interfaces of ROS 2 that the project has, and those of rosbags with which they are compared."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import pytest

from nodes.framework.ros2 import interfaces
from nodes.framework.ros2.interface import RosMessage, RosService

DEFINITIONS = Path(__file__).with_name("definitions.txt")  # of interfaces that rosbags does not know
EVENT = "service_msgs/msg/ServiceEventInfo"


def all_interfaces() -> list[type[Any]]:
    """Every message and service of the project, in the order of modules and names."""
    modules = [
        importlib.import_module(f"{interfaces.__name__}.{each.name}")
        for each in pkgutil.iter_modules(interfaces.__path__)
    ]
    return [
        value
        for module in modules
        for _, value in sorted(vars(module).items())
        if isinstance(value, type) and value.__module__ == module.__name__
    ]


def all_messages() -> list[type[RosMessage]]:
    """Every message, with the requests and responses of services."""
    parts: list[type[RosMessage]] = []
    for each in all_interfaces():
        parts += [each.Request, each.Response] if issubclass(each, RosService) else [each]
    return parts


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with an argument `message` or `interface` for each of them."""
    from nodes.framework.ros2.interface import type_name

    for name, values in (("message", all_messages()), ("interface", all_interfaces())):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, values, ids=map(type_name, values))


@pytest.fixture(scope="session", params=["jazzy", "kilted"])
def store(request: pytest.FixtureRequest) -> Any:
    """The interfaces of a distribution as rosbags has them, with those of simulation_interfaces and rcl_interfaces."""
    typesys = pytest.importorskip("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores[f"ROS2_{request.param.upper()}"])
    types: dict[str, Any] = {}
    for section in DEFINITIONS.read_text().split("=== ")[1:]:
        name, _, text = section.partition("\n")
        if "/srv/" in name:
            for part, fields in zip(("Request", "Response"), text.split("---\n"), strict=True):
                # parsed as a message: rosbags knows no services
                parsed = typesys.get_types_from_msg(fields or "\n", f"{name.replace('/srv/', '/msg/')}_{part}")
                types[f"{name}_{part}"] = next(iter(parsed.values()))
        else:
            types |= typesys.get_types_from_msg(text, name)
    store.register(types)
    constants, members = store.fielddefs[EVENT]
    (_, (array, ((base, (char, size)), count))) = members[2]
    assert char == "char"  # of which ROS 2 makes uint8, as the published hashes of services show
    store.fielddefs[EVENT] = (
        constants,
        [*members[:2], ("client_gid", (array, ((base, ("uint8", size)), count))), *members[3:]],
    )
    return store
