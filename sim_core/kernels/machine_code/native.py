"""Compilation of LLVM IR to callable machine code, with a cache of object files."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import json
import logging
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from sim_core.kernels.machine_code.interrupts import signals_after_callbacks
from sim_core.trusted_files import require_own

REMINDER_S = 15.0  # time between two lines about one compilation; a launch gives up a process without output
MOST_LOADED = 8  # libraries that are kept for the next `load_shared`
LONGEST_S = 600.0  # time after which a compilation is reported no more, because it must have failed

log = logging.getLogger("armswing.compile")


def _source_hash() -> str:
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


_SOURCE_HASH = _source_hash()  # at the import: a file may be edited while this process still runs its earlier code


def source_hash() -> str:
    """Hash of all source files of sim_core, part of every cache key: any edit invalidates the cache."""
    return _SOURCE_HASH


def symbol_name(*parts: str) -> str:
    """Symbol of a kernel in an object file, from parts of its name such as "acceleration"."""
    return "_".join(part.replace("-", "_") for part in parts)


def cache_folder() -> Path:
    """Folder of the kernel cache: $XDG_CACHE_HOME/armswing, by default ~/.cache/armswing."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "armswing"


def cache_subfolder(name: str) -> Path:
    """Folder in the kernel cache, made with mode 0700 if missing and if the cache folder can be written.

    Raises UntrustedFile if another user could have written the folder.
    """
    folder = cache_folder() / name
    with suppress(OSError):
        folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    with suppress(OSError):
        require_cached(folder)
    return folder


def cached_bytes(path: Path) -> bytes | None:
    """Content of a file of the kernel cache; None if the file cannot be read.

    Raises UntrustedFile if another user could have written the file.
    """
    with suppress(OSError):
        require_cached(path)
        return path.read_bytes()
    return None


def require_cached(path: Path) -> None:
    """Raise UntrustedFile if another user could have written a file or folder of the kernel cache."""
    require_own(path, cache_folder().parent, "set XDG_CACHE_HOME to a folder of your own")


def _new_target() -> Any:
    """A new LLVM target machine for this computer."""
    import llvmlite.binding as llvm  # only where machine code is made or loaded

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=1, jit=True, codemodel="default"
    )


def cross_target(triple: str, cpu: str, features: str) -> Any:
    """LLVM target machine that makes position-independent object files for another computer."""
    import llvmlite.binding as llvm  # only where machine code is made or loaded

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(cpu=cpu, features=features, opt=1, reloc="pic", codemodel="default")


def short_hash(*parts: str) -> str:
    """Hash of several texts, 32 hex digits."""
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]


@cache
def machine_key() -> str:
    """Text that identifies the target of compilation: CPU, its features, llvmlite version."""
    import llvmlite  # only where machine code is made or loaded
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()}|{llvm.get_host_cpu_features().flatten()}|{llvmlite.__version__}"


@cache
def has_fused_multiply_add() -> bool:
    """Whether this computer's processor has an instruction for fused multiply-add."""
    import llvmlite.binding as llvm  # only where machine code is made or loaded

    return platform.machine() in ("aarch64", "arm64") or bool(llvm.get_host_cpu_features().get("fma", False))


@dataclass
class Library:
    """Loaded machine code: {symbol: address}, and the manifest (a dict) stored with the object file."""

    manifest: dict[str, Any]
    addresses: dict[str, int]
    from_cache: bool
    _owner: Any = field(repr=False)  # keeps the machine code in memory


def load(key: str) -> Library | None:
    """Load the library cached under `key`; None if there is none, or if its files cannot be read or are damaged.

    Each call returns a new Library, whose global variables are separate from those of all others. Raises UntrustedFile
    if another user could have written the files.

    key  file name without suffix in the folder of kernels, or an absolute path without suffix
    """
    stem = cache_subfolder("kernels") / key
    text, data = cached_bytes(stem.with_suffix(".json")), cached_bytes(stem.with_suffix(".o"))
    try:
        manifest = json.loads(text or b"")
    except ValueError:
        return None
    if data is None or hashlib.sha256(data).hexdigest() != manifest["object_hash"]:
        return None
    ends = [*manifest.get("ends", ()), len(data)]
    objects = [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return _link(objects, manifest, from_cache=True)


def load_shared(key: str) -> Library | None:
    """Like `load`, but equal calls return the same Library as long as its files are unchanged.

    The code must not have global variables that change, because all callers share them. Only the libraries that this
    process loaded last are kept for further calls.
    """
    stem = cache_folder() / "kernels" / key
    stamp = _stamp(stem)
    if stamp is not None and (kept := _loaded.get(stamp)) is not None:
        return kept
    library = load(key)
    if library is not None and stamp is not None and stamp == _stamp(stem):
        _loaded[stamp] = library
        while len(_loaded) > MOST_LOADED:
            _loaded.pop(next(iter(_loaded)), None)
    return library


def _stamp(stem: Path) -> tuple[Any, ...] | None:
    """Values that change if a library's files change: path, then inode, size and time of change of both files.

    None if a file is missing.
    """
    try:
        found = [os.stat(stem.with_suffix(suffix)) for suffix in (".json", ".o")]
    except OSError:
        return None
    return (str(stem), *((each.st_ino, each.st_size, each.st_mtime_ns) for each in found))


_loaded: dict[tuple[Any, ...], Library] = {}


def compile_module(ir: str, manifest: dict[str, Any], key: str) -> Library:
    """Compile LLVM IR, cache object file and manifest under `key`, and load the library."""
    return keep([object_of(ir)], manifest, key)


def keep(objects: list[bytes], manifest: dict[str, Any], key: str) -> Library:
    """Cache a manifest and object files, combined into one file, under `key` (see `load`), and load the library.

    Files are written atomically; if they cannot be written, the library is loaded all the same but not cached.
    """
    data = b"".join(objects)
    ends = list(accumulate(map(len, objects)))[:-1]
    manifest = {**manifest, "object_hash": hashlib.sha256(data).hexdigest(), **({"ends": ends} if ends else {})}
    stem = cache_subfolder("kernels") / key
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        _write(stem.with_suffix(".o"), data)
        _write(stem.with_suffix(".json"), json.dumps(manifest, indent=1).encode())
    except OSError:
        pass
    return _link(objects, manifest, from_cache=False)


def object_code(ir: str, machine: Any) -> bytes:
    """Object file, as bytes, compiled from LLVM IR for a target machine."""
    import llvmlite.binding as llvm  # only where machine code is made or loaded

    module = llvm.parse_assembly(ir)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return bytes(machine.emit_object(module))


def object_of(ir: str) -> bytes:
    """Object file, as bytes, compiled from LLVM IR for this computer."""
    return object_code(ir, _new_target())


def linked(ir: str, symbols: list[str]) -> Library:
    """Compile LLVM IR and load the library without caching it; `symbols` are the symbols to look up in it."""
    return linked_objects([object_of(ir)], symbols)


def linked_objects(objects: list[bytes], symbols: list[str]) -> Library:
    """Load object files without caching them; `symbols` are the symbols to look up in them."""
    return _link(objects, {"symbols": symbols}, from_cache=False)


@contextmanager
def compiling(what: str) -> Iterator[Callable[[str], None]]:
    """Context that logs to "armswing.compile" that `what` is being compiled, and afterwards how long it took.

    The result is the function that logs further lines.
    Compilation takes seconds; a program without logging handlers gets the lines on stderr. A signal that arrives in
    LLVM, as Ctrl-C does, is handled when the context is left. Python's cyclic garbage collector is off in the context,
    because it would take a fifth of the time.
    """
    _report(f"compiling {what}, a few seconds, once: {cache_folder()} keeps it")
    began = time.perf_counter()
    ended = threading.Event()
    threading.Thread(target=_remind, args=(what, ended), daemon=True).start()
    collects = gc.isenabled()
    gc.disable()
    try:
        with signals_after_callbacks():
            yield _report
    finally:
        if collects:
            gc.enable()
        ended.set()
    _report(f"compiled {what} in {time.perf_counter() - began:.1f} s")


def _remind(what: str, ended: threading.Event) -> None:
    """Log every REMINDER_S seconds that `what` is still being compiled.

    The lines end when `ended` is set, at the latest after LONGEST_S seconds.
    """
    for count in range(1, round(LONGEST_S / REMINDER_S)):
        if ended.wait(REMINDER_S):
            return
        _report(f"compiling {what}, {count * REMINDER_S:.0f} s so far")


def _report(line: str) -> None:
    if log.hasHandlers():
        log.info(line)
    else:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def sole_compiler(key: str) -> Iterator[None]:
    """Context that holds the lock of a cache key, so that only one process at a time compiles the code of this key.

    The operating system releases the lock when the process ends. There is no lock if the cache folder is read-only.
    """
    path = cache_subfolder("kernels") / f"{key}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("w")
    except OSError:
        yield
        return
    with stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _write(path: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
    os.replace(name, path)


def _link(objects: list[bytes], manifest: dict[str, Any], from_cache: bool) -> Library:
    """Load object files. JITLink places each object in one block of memory.

    MCJIT, which allocates each section separately, aborts the process where two sections of an object are more than
    2 GB apart, as happens in a process whose memory has gaps.
    """
    import llvmlite.binding as llvm  # only where machine code is made or loaded

    jit = llvm.create_lljit_compiler(_new_target(), use_jit_link=True)
    builder = llvm.JITLibraryBuilder().add_current_process()
    for data in objects:
        builder.add_object_img(data)
    for symbol in manifest["symbols"]:
        builder.export_symbol(symbol)
    loaded = builder.link(jit, "kernels")
    return Library(manifest, {symbol: loaded[symbol] for symbol in manifest["symbols"]}, from_cache, (jit, loaded))
