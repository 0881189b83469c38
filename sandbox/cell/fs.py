# SPDX-License-Identifier: Apache-2.0
"""File system calls that Python does not offer: resolving beneath a root, exchanging, comparing.

Runs in the keeper: standard library only, Python 3.9. Everything that touches the real workspace
goes through a descriptor of its root and a relative path; no symbolic link is ever followed.

INVARIANT (P2): no function here leaves the root that it was given, whatever lies in the tree.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

NOREPLACE = 1
EXCHANGE = 2
CHUNK = 1 << 20
"""Bytes read at a time when files are compared or copied."""

_OPENAT2 = 437
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347}
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 1, 2, 4, 8
_RESOLVE = _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""How a file is opened to be read, whatever stands in its place by then."""
_KEPT_PREFIXES = ("user.", "system.posix_acl_")
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""What the system answers where a path, or a directory on its way, is not there."""

_UTIME_OMIT = (1 << 30) - 2
"""Instead of nanoseconds: this time stays as it is (utimensat(2))."""

_libc = ctypes.CDLL(None, use_errno=True)


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def _syscall(number: int, *arguments: object) -> int:
    result: int = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def open_beneath(root: int, path: str, flags: int = _DIRECTORY) -> int:
    """Open `path` (relative, `""` is the root itself) without following any link.

    Raises OSError: ELOOP for a link, EXDEV for another file system or a way out.
    """
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    how = _How(flags, 0, _RESOLVE)
    try:
        return _syscall(
            _OPENAT2,
            ctypes.c_int(root),
            ctypes.c_char_p(os.fsencode(path or ".")),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):  # older kernels and seccomp profiles
            raise OSError(error.errno, error.strerror, path) from None
    return _open_by_component(root, path, flags)


def _open_by_component(root: int, path: str, flags: int) -> int:
    parts = [part for part in path.split("/") if part]
    if ".." in parts or path.startswith("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    device = os.fstat(root).st_dev
    here = os.dup(root)
    try:
        for position, part in enumerate(parts or ["."]):
            last = position >= len(parts) - 1
            there = os.open(part, flags if last else _DIRECTORY, dir_fd=here)
            os.close(here)
            here = there
            if os.fstat(here).st_dev != device:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
        return here
    except BaseException:
        os.close(here)
        raise


def parent(root: int, path: str) -> tuple[int, str]:
    """Open the directory that holds `path`; return its descriptor and the name in it.

    The descriptor is `root` itself for a path of one component; otherwise the caller closes it.
    """
    directory, _, name = path.rpartition("/")
    if name in ("", ".", ".."):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    return (open_beneath(root, directory) if directory else root), name


class _Handle(ctypes.Structure):
    _fields_ = (
        ("length", ctypes.c_uint),
        ("form", ctypes.c_int),
        ("content", ctypes.c_ubyte * 128),
    )


def handle(root: int, path: str) -> bytes | None:
    """Return the file handle of an object, without its type; None where there are none, or absent.

    Unlike an inode's number it is never given to another object later.
    """
    found = _Handle(128)
    try:
        directory, name = parent(root, path)
    except OSError:
        return None
    try:
        mount = ctypes.c_int()
        arguments = (directory, os.fsencode(name), ctypes.byref(found), ctypes.byref(mount), 0)
        if not hasattr(_libc, "name_to_handle_at") or _libc.name_to_handle_at(*arguments) < 0:
            return None
    finally:
        if directory != root:
            os.close(directory)
    return bytes(found.content[: found.length])


def lstat(root: int, path: str) -> os.stat_result | None:
    """Return the status of `path` itself; None where it, or a directory on its way, is absent."""
    if not path:
        return os.fstat(root)
    try:
        directory, name = parent(root, path)
    except OSError as error:
        if error.errno in ABSENT:
            return None
        raise
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    finally:
        if directory != root:
            os.close(directory)


def readlink(root: int, path: str) -> str:
    """Return the target of a link."""
    directory, name = parent(root, path)
    try:
        return os.readlink(name, dir_fd=directory)
    finally:
        if directory != root:
            os.close(directory)


def rename(from_dir: int, name: str, to_dir: int, target: str, flags: int) -> None:
    """Rename with NOREPLACE or EXCHANGE. Raises OSError, EINVAL where it is not supported."""
    old, new = os.fsencode(name), os.fsencode(target)
    function = getattr(_libc, "renameat2", None)
    if function is None:
        number = _RENAMEAT2.get(platform.machine())
        if number is None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
        _syscall(
            number,
            ctypes.c_int(from_dir),
            ctypes.c_char_p(old),
            ctypes.c_int(to_dir),
            ctypes.c_char_p(new),
            ctypes.c_uint(flags),
        )
    elif function(from_dir, old, to_dir, new, flags) < 0:
        code = ctypes.get_errno()
        code = errno.EINVAL if code == errno.ENOSYS else code
        raise OSError(code, os.strerror(code), name, None, target)


def sync_all(descriptor: int) -> None:
    """Write the whole file system of `descriptor` to disk."""
    if _libc.syncfs(descriptor) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def attributes(target: int | str) -> dict[str, bytes]:
    """Return the extended attributes that belong to the user: `user.*` and access lists."""
    follow = isinstance(target, int)  # a descriptor names the object itself
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listxattr(target, follow_symlinks=follow):
            if name.startswith(_KEPT_PREFIXES):
                found[name] = os.getxattr(target, name, follow_symlinks=follow)
    return found


def access_lists(path: str) -> dict[str, bytes]:
    """Return the access lists of what stands at a path, by the names of their attributes."""
    return {name: one for name, one in attributes(path).items() if name.startswith("system.")}


def set_attributes(descriptor: int, wanted: Mapping[str, bytes]) -> None:
    """Make the user's extended attributes of an open file exactly `wanted`."""
    present = attributes(descriptor)
    for name in present.keys() - wanted.keys():
        os.removexattr(descriptor, name)
    for name, value in wanted.items():
        if present.get(name) != value:
            os.setxattr(descriptor, name, value)


def trusted(path: str, name: str) -> bytes | None:
    """Return one of overlayfs' own attributes of a path in a layer."""
    try:
        return os.getxattr(path, "trusted.overlay." + name, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.EOPNOTSUPP):
            return None
        raise


def origin(path: str) -> bytes | None:
    """Return the handle of what a file or folder of a layer was copied up from, None for nothing.

    It stands behind a head of 21 bytes: version, flags and the file system's id.
    """
    found = trusted(path, "origin")
    return found[21:] if found is not None and len(found) >= 29 else None


def _next_data(descriptor: int, offset: int) -> int | None:
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        return None if error.errno == errno.ENXIO else offset


def same_content(one: int, other: int) -> bool:
    """Compare two open files of equal size, in bounded memory, skipping holes common to both."""
    offset, size = 0, os.fstat(one).st_size
    while True:
        starts = [s for s in (_next_data(one, offset), _next_data(other, offset)) if s is not None]
        if not starts:
            return True
        offset = min(starts)
        piece = min(CHUNK, max(0, size - offset) + 1)
        chunk = os.pread(one, piece, offset)
        if chunk != os.pread(other, piece, offset):
            return False
        if not chunk:
            return True
        offset += len(chunk)


def copy_content(source: int, target: int, size: int) -> None:
    """Copy an open file, keeping its holes."""
    offset = 0
    while offset < size:
        start = _next_data(source, offset)
        if start is None:
            break
        # A buffer of the whole piece for each small file would cost more than the copy.
        chunk = os.pread(source, min(CHUNK, max(0, size - start)), start)
        if not chunk:
            break
        view = memoryview(chunk)
        while view:
            written = os.pwrite(target, view, start)
            view, start = view[written:], start + written
        offset = start
    if offset < size:
        os.ftruncate(target, size)


def identity(status: os.stat_result) -> list[int]:
    """Return what tells whether an object is the same: inode, size, mtime, ctime, file type.

    Of a directory only the inode counts (what it holds is compared one by one). The ctime of a
    file with several links is left out, since moving one link changes it for all.
    """
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        return [status.st_ino, -1, 0, 0, kind]
    ctime = status.st_ctime_ns if status.st_nlink == 1 else 0
    return [status.st_ino, status.st_size, status.st_mtime_ns, ctime, kind]


def tree(
    directory: int, prefix: str = "", skipped: Callable[[str], bool] | None = None
) -> Iterator[tuple[str, os.stat_result]]:
    """Give all that an open directory holds, parents first, by relative path.

    `skipped` says which paths are left out, with what they hold. Without recursion, which would end
    a landing in the middle where a tree is deep.
    """
    opened = [directory]
    waiting = [(prefix, _entries(directory))]
    try:
        while waiting:
            place, entries = waiting[-1]
            name, status = next(entries, ("", None))
            if status is None:
                waiting.pop()
                if waiting:
                    os.close(opened.pop())
                continue
            if skipped is not None and skipped(place + name):
                continue
            yield place + name, status
            if stat.S_ISDIR(status.st_mode):
                opened.append(os.open(name, _DIRECTORY, dir_fd=opened[-1]))
                waiting.append((place + name + "/", _entries(opened[-1])))
    finally:
        for descriptor in opened[1:]:
            os.close(descriptor)


def _entries(directory: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    yield from found


def being_written(directory: int, name: str) -> bool:
    """Whether a program has a file open for writing; False where that cannot be known.

    A read lease is given only where nobody has (fcntl(2)), and only to the file's owner. Whoever
    holds one gets SIGIO when somebody opens the file, so it is given back at once.
    """
    try:
        descriptor = os.open(name, READ, dir_fd=directory)
    except OSError:
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)
    return False


def tell_modified(directory: int, name: str) -> None:
    """Let whoever watches a file hear last, after an exchange, that it is there and has changed.

    Of an exchange inotify tells that the name came and, last, that it went: editors, dev servers
    and programs that keep folders alike would take the file for deleted. Setting the mtime alone,
    to what it is, is told as a modification. A read lease keeps writers out for that moment; where
    none is given, and somebody writes within these microseconds, the mtime stays what it was.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(name, READ, dir_fd=directory)
        try:
            with contextlib.suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                seconds, rest = divmod(status.st_mtime_ns, 10**9)
                times = (_Time * 2)(_Time(0, _UTIME_OMIT), _Time(seconds, rest))
                _libc.futimens(ctypes.c_int(descriptor), times)
        finally:
            os.close(descriptor)  # gives the lease back


def reading(descriptor: int) -> BinaryIO:
    """Return an open file to read from, which owns its descriptor. Raises IsADirectoryError.

    Python raises that too, but leaves the descriptor open.
    """
    try:
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_directory(name: str, directory: int | None = None) -> int:
    """Open a directory by name, refusing a link."""
    return os.open(name, _DIRECTORY, dir_fd=directory)
