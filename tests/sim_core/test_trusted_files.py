"""Files that are run or relied on: refused in one line if another user could have written them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from robots.registry import build
from sim_core import assemble, trusted_files
from sim_core.errors import InvalidRequest
from sim_core.kernels import compiled
from sim_core.kernels.machine_code import installed, native
from sim_core.trusted_files import PRIVATE, UntrustedFile, require_named, require_own

OTHER = 54321  # a user who is neither this one nor root

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file two folders below the base, which nobody else can write."""
    folder = tmp_path / "base" / "armswing"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "file").write_text("")
    return folder / "file"


def check(file: Path) -> None:
    require_own(file, file.parents[1], "set XDG_CACHE_HOME to a folder of your own")


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
def test_a_file_or_folder_that_others_can_write_is_refused_with_the_remedy(level: int, mode: int, file: Path) -> None:
    check(file)
    opened = (file, *file.parents)[level]
    opened.chmod(mode)
    with pytest.raises(UntrustedFile) as refused:
        check(file)
    line = f"{opened} is open to other users (mode {mode:04o}); close it with 'chmod go-w {opened}'"
    assert str(refused.value) == line


@as_root
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_file_or_folder_of_another_user_is_refused(level: int, file: Path) -> None:
    foreign = (file, *file.parents)[level]
    os.chown(foreign, OTHER, OTHER)
    with pytest.raises(UntrustedFile) as refused:
        check(file)
    remedy = "set XDG_CACHE_HOME to a folder of your own"
    assert str(refused.value) == f"{foreign} belongs to another user (uid {OTHER}, yours is 0); {remedy}"


def test_a_group_counts_unless_it_is_the_owner_s_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0o660)
    monkeypatch.setattr(trusted_files, "_is_private_group", lambda group, owner: False)
    with pytest.raises(UntrustedFile, match="mode 0660"):
        check(file)
    monkeypatch.setattr(trusted_files, "_is_private_group", lambda group, owner: True)
    check(file)
    with pytest.raises(UntrustedFile, match=r"mode 0660.*chmod go-rwx"):
        require_own(file, file.parent, "", PRIVATE)


@as_root
def test_a_link_into_a_folder_of_another_user_is_refused(file: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.chown(elsewhere, OTHER, OTHER)
    (file.parent / "link").symlink_to(elsewhere)
    (elsewhere / "file").write_text("")
    with pytest.raises(UntrustedFile, match=f"link belongs to another user \\(uid {OTHER}"):
        require_own(file.parent / "link" / "file", file.parents[1], "set it")


def test_a_named_file_is_refused_if_every_user_could_have_written_it(file: Path) -> None:
    file.chmod(0o664)
    require_named(file)  # the group of a folder that people share
    file.chmod(0o666)
    with pytest.raises(UntrustedFile, match=r"mode 0666\); close it with 'chmod o-w"):
        require_named(file)
    file.chmod(0o644)
    file.parents[1].chmod(0o777)
    with pytest.raises(UntrustedFile, match=rf"{file.parents[1]} is open to other users \(mode 0777\)"):
        require_named(file)
    file.parents[1].chmod(0o1777)  # as /tmp: others cannot replace a file there
    require_named(file)


@as_root
def test_a_named_file_of_another_user_is_refused_only_in_a_folder_such_as_tmp(file: Path) -> None:
    os.chown(file, OTHER, OTHER)
    require_named(file)  # the user named it, and its owner
    file.parent.chmod(0o1777)
    with pytest.raises(UntrustedFile, match=r"belongs to another user.*; copy it to a folder of your own"):
        require_named(file)


def test_machine_code_that_others_could_have_written_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_loaded", {})
    before = os.umask(0)  # the folders are nobody else's even then
    try:
        assemble(build("rotary_pendulum"))
    finally:
        os.umask(before)
    folder = native.cache_folder()
    assert {each.stat().st_mode & 0o777 for each in (folder, folder / "kernels")} == {0o700}
    kernels = [*(folder / "kernels").glob("*.o"), *(folder / "kernels").glob("*.json")]
    assert kernels
    for each in (folder, folder / "kernels", *kernels):
        mode = each.stat().st_mode & 0o777
        each.chmod(0o777)
        monkeypatch.setattr(native, "_loaded", {})
        with pytest.raises(InvalidRequest, match=rf"{each} is open to other users \(mode 0777\)"):
            assemble(build("rotary_pendulum"))
        each.chmod(mode)
    assemble(build("rotary_pendulum"))


def test_loops_that_others_could_have_written_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(installed.VARIABLE, str(tmp_path / "installed"))
    source = installed.installed_loops()
    assert source is not None
    source.mkdir(parents=True, mode=0o755)
    (source / "loop.nbi").write_bytes(b"a pickle")
    (source / "loop.nbi").chmod(0o666)
    with pytest.raises(UntrustedFile, match=r"loop\.nbi is open to other users"):
        compiled.loops_folder()
    (source / "loop.nbi").chmod(0o644)
    copied = compiled.loops_folder()
    compiled._require_loops.cache_clear()
    (copied / "loop.nbi").chmod(0o666)
    with pytest.raises(UntrustedFile, match=r"loop\.nbi is open to other users"):
        compiled.loops_folder()
