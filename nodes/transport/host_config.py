"""Which host of a launch this computer is, and where its registry is: a file in the domain's folder.

Without the file there is one host, and ipc reaches everything. It is written by `armswing launch`, on each host.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from nodes.transport.domain import DomainError, domain_folder, ipc_endpoint

HOST_FILE = "site.json"
FIRST_PORT = 17400
LOCAL = "localhost"


class HostConfig(msgspec.Struct, kw_only=True, frozen=True):
    """host: its name in the plan; address: its own, in numbers; calls, news: the registry's, "" where it is here."""

    host: str = LOCAL
    address: str = ""
    calls: str = ""
    news: str = ""

    @property
    def far(self) -> str:
        """What sockets for other hosts bind to, a free port; "" where there are none."""
        return f"tcp://{bracketed(self.address)}:*" if self.address else ""


def bracketed(address: str) -> str:
    """An address in numbers as it stands before a port."""
    return f"[{address}]" if ":" in address else address


def registry_ports(domain: int) -> tuple[int, int]:
    """The tcp ports of a domain's registry: of calls and of news."""
    return FIRST_PORT + 2 * domain, FIRST_PORT + 2 * domain + 1


def far_registry(domain: int, address: str) -> tuple[str, str]:
    """The tcp addresses of a registry on another host, without its key: of calls and of news."""
    calls, news = registry_ports(domain)
    return f"tcp://{bracketed(address)}:{calls}", f"tcp://{bracketed(address)}:{news}"


def read_host_config(domain: int) -> HostConfig:
    """What the launch on this host wrote; the only host where none did."""
    try:
        return msgspec.json.decode((domain_folder(domain) / HOST_FILE).read_bytes(), type=HostConfig)
    except FileNotFoundError:
        return HostConfig()
    except (OSError, msgspec.MsgspecError) as error:
        raise DomainError(f"{domain_folder(domain) / HOST_FILE} cannot be used: {error}") from None


def write_host_config(domain: int, site: HostConfig) -> None:
    """Say which host this is; for the only one there is no file."""
    file = _file(domain)
    if site == HostConfig():
        file.unlink(missing_ok=True)
    else:
        file.write_bytes(msgspec.json.encode(site))


def forget_site(domain: int) -> None:
    """The launch on this host is over."""
    with contextlib.suppress(DomainError):
        _file(domain).unlink(missing_ok=True)


def calls_endpoint(domain: int) -> str:
    """Where the registry takes calls, as seen from this host."""
    return read_host_config(domain).calls or ipc_endpoint(domain, "registry")


def news_endpoint(domain: int) -> str:
    """Where the registry publishes its news, as seen from this host."""
    return read_host_config(domain).news or ipc_endpoint(domain, "registry-news")


def _file(domain: int) -> Path:
    return domain_folder(domain) / HOST_FILE
