"""Runs a command line, and turns every error into one line on stderr and an exit code."""

from __future__ import annotations

import errno
import functools
import logging
import os
import resource
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from nodes.cli.commands import MODULES, add_commands, add_summaries
from nodes.cli.terminal import warn
from nodes.framework.recording.integrity.warning import RecordingWarning
from sim_core.support.extras import install_hint, missing_extra

# Errors of a disk that is full or not writable, in any command.
PATH_ERRORS = {
    errno.EACCES, errno.EPERM, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP,
    errno.EROFS, errno.E2BIG
}  # nothing was written  # fmt: skip
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


FEWEST_FILES = 64  # that a process has to be able to open


@functools.cache
def application(names: tuple[str, ...] = tuple(MODULES)) -> typer.Typer:
    """The application `armswing` with the commands or groups of these names, by default all."""
    app = _without_commands()
    add_commands(app, names)
    return app


def _for(arguments: Sequence[str]) -> typer.Typer:
    """The application with what a command line needs."""
    if arguments and arguments[0] in MODULES:
        return application(tuple(arguments[:1]))
    if "--" in arguments or any(not each.startswith("-") for each in arguments):
        return application()
    app = _without_commands()
    add_summaries(app)
    return app


def _without_commands() -> typer.Typer:
    app = typer.Typer(
        name="armswing",
        help="Simulate robots: a simulation server, controllers, a recorder and a viewer, over ZeroMQ.",
        epilog="Example: armswing launch rotary_pendulum --duration 20",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_options)
    return app


def _options(version: bool = typer.Option(False, "--version", help="Print the version and end.")) -> None:
    if version:
        from importlib.metadata import version as installed_version  # 0.01 s of each command

        print(f"armswing {installed_version('armswing')}")
        raise typer.Exit


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code.

    An error that the user caused or can correct is printed as one line to standard error.
    """
    logging.getLogger("armswing.compile").addHandler(logging.NullHandler())  # commands that compile show progress
    try:
        os.getcwd()
    except OSError:
        warn("armswing: the working folder does not exist any more; change to another folder")
        return 2
    if (files := _open_files_allowed()) < FEWEST_FILES:
        warn(
            f"armswing: a process may open {files} files, but needs {FEWEST_FILES}; run 'ulimit -n 1024' or more first"
        )
        return 2
    try:
        app = _for(arguments)
        with _warnings_in_one_line():
            code = app(args=list(arguments), prog_name="armswing", standalone_mode=False)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # `armswing topic echo ... | head`: the reader closed the pipe, which is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        exit_code = _exit_code_of(error)
        if missing_extra(error):
            warn(f"armswing: {error}{install_hint(error)}")
            return 1
        if exit_code is None:
            raise
        warn(f"armswing: {_line_of(error)}")
        return exit_code
    return code if isinstance(code, int) else 0


def _open_files_allowed() -> int:
    """Number of files that this process and its children may open, after the limit is raised as far as it may be.

    ZeroMQ aborts a process that may open too few, without a message for its user.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = 1024 if hard == resource.RLIM_INFINITY else min(hard, 1024)
    if soft != resource.RLIM_INFINITY and soft < highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        return highest
    return highest if soft == resource.RLIM_INFINITY else soft


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Context manager that prints every warning of armswing, such as a RecordingWarning, as one line to stderr."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *more: Any, **named: Any) -> None:
            if issubclass(category, RecordingWarning):
                warn(f"armswing: {message}")
            elif category.__module__.partition(".")[0] in ("sim_core", "robots", "nodes"):
                warn(f"warning: {message}")
            else:
                usual(message, category, *more, **named)

        warnings.showwarning = show
        warnings.simplefilter("always", RecordingWarning)
        yield


def _exit_code_of(error: Exception) -> int | None:
    """Exit code for an error that the user sees as one line; None for an error that is a defect of the program.

    Classes of errors whose message is one line for the user have an attribute `exit_code`.
    """
    if type(error).__name__ == "Abort":
        return 130
    if isinstance(error, OSError) and error.errno in DISK_ERRORS | PATH_ERRORS:
        return 1
    code = getattr(error, "exit_code", None)
    return code if isinstance(code, int) else None


def _line_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in DISK_ERRORS | PATH_ERRORS:
        incomplete = "" if error.errno in PATH_ERRORS else f"; {getattr(error, 'left', 'the file is incomplete')}"
        return f"{error.filename or 'the output'}: {error.strerror}{incomplete}"
    if not hasattr(error, "format_message"):
        return str(error).replace("\n", " ")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "armswing"
    message = " ".join(str(error.format_message()).split())
    if type(error).__name__ == "NoArgsIsHelpError":  # the library printed the help already
        known = getattr(getattr(context, "command", None), "commands", {})
        message = f"name a command: {', '.join(known)}"
    return f"{message.rstrip('.')}; see '{command} --help'"
