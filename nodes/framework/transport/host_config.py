"""Host configuration: the name of this computer in the launch's plan, and the endpoints of the registry.

`armswing launch` writes the configuration to a file in the domain's folder on each host. Without this file, the launch
has a single host and all sockets use ipc.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from nodes.framework.transport.domain import DomainError, domain_folder, ipc_endpoint

HOST_FILE = "host.json"
FIRST_PORT = 17400
LOCAL = "localhost"


class HostConfig(msgspec.Struct, kw_only=True, frozen=True):
    """This computer's part in a launch with several hosts.

    host     name of this computer in the plan
    address  IP address of this computer; "" in a launch with one host
    calls    endpoint of the registry's services; "" if the registry runs on this computer
    news     endpoint on which the registry publishes its list of nodes; "" if the registry runs on this computer
    """

    host: str = LOCAL
    address: str = ""
    calls: str = ""
    news: str = ""

    @property
    def remote_endpoint(self) -> str:
        """Endpoint to which sockets for other hosts are bound; "" in a launch with one host.

        The port of the endpoint is "*", which stands for any free port.
        """
        return f"tcp://{bracketed(self.address)}:*" if self.address else ""


def bracketed(address: str) -> str:
    """IP address as it is written before a port: an IPv6 address in brackets, any other address unchanged."""
    return f"[{address}]" if ":" in address else address


def registry_ports(domain: int) -> tuple[int, int]:
    """Return the tcp ports of a domain's registry: (port for service calls, port for publications)."""
    return FIRST_PORT + 2 * domain, FIRST_PORT + 2 * domain + 1


def remote_registry(domain: int, address: str) -> tuple[str, str]:
    """Return the tcp endpoints (for service calls, for publications) of a registry on another host.

    The endpoints do not contain the key of the registry.
    """
    calls, news = registry_ports(domain)
    return f"tcp://{bracketed(address)}:{calls}", f"tcp://{bracketed(address)}:{news}"


def read_host_config(domain: int) -> HostConfig:
    """Read the host configuration of this domain. Without a file, return the configuration for a single host."""
    try:
        return msgspec.json.decode((domain_folder(domain) / HOST_FILE).read_bytes(), type=HostConfig)
    except FileNotFoundError:
        return HostConfig()
    except (OSError, msgspec.MsgspecError) as error:
        raise DomainError(
            f"the host configuration {domain_folder(domain) / HOST_FILE} cannot be read: {error}; start the launch "
            "again"
        ) from None


def write_host_config(domain: int, host_config: HostConfig) -> None:
    """Write the host configuration of this domain. For a launch with one host, remove the file instead.

    The file is replaced as a whole: who reads it meanwhile gets the old or the new configuration.
    """
    file = _file(domain)
    if host_config == HostConfig():
        file.unlink(missing_ok=True)
    else:
        part = file.with_name(f".{file.name}.part")
        part.write_bytes(msgspec.json.encode(host_config))
        part.replace(file)


def remove_host_config(domain: int) -> None:
    """Remove the host configuration at the end of the launch."""
    with contextlib.suppress(DomainError):
        _file(domain).unlink(missing_ok=True)


def calls_endpoint(domain: int) -> str:
    """Endpoint of the registry's services, as reached from this host."""
    return read_host_config(domain).calls or ipc_endpoint(domain, "registry")


def news_endpoint(domain: int) -> str:
    """Endpoint of the registry's publications, as reached from this host."""
    return read_host_config(domain).news or ipc_endpoint(domain, "registry-news")


def _file(domain: int) -> Path:
    return domain_folder(domain) / HOST_FILE
