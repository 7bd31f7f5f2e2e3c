"""The port to objects, and the two stores there are: a folder, and an S3-compatible service. Both go through obstore.

Calls block, for the archive's own threads. An object appears as a whole or not at all, and is never changed. What can't be
reached or refuses raises StoreError.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from headrace.disk.port import Buffer
from headrace.log.errors import InvalidConfig

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Obstore

PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 2
_RETRIES = 2


T = TypeVar("T")


class InThread(Protocol):
    """Makes a call that blocks on a thread of the archive."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


class StoreError(Exception):
    """The store did not do what was asked; the text says what it answered."""


class MissingObject(StoreError):
    """There is no such object."""


class ObjectStore(Protocol):
    def put(self, key: str, pieces: Iterable[Buffer]) -> None:
        """Makes an object of these pieces, durably. An error in `pieces` goes through, and then there is no object."""
        ...

    def read(self, key: str, start: int, end: int) -> Buffer:
        """The bytes from `start` up to `end`; fewer only when the object is shorter."""
        ...

    def size(self, key: str) -> int: ...

    def delete(self, key: str) -> None:
        """No error when there is none."""
        ...


class ObstoreObjects:
    """Any store that obstore knows. Memory: two parts of 8 MiB for each upload."""

    def __init__(self, reads: Obstore, writes: Obstore | None = None) -> None:
        import obstore

        self._obstore = obstore
        self._reads = reads
        self._writes = writes or reads

    def put(self, key: str, pieces: Iterable[Buffer]) -> None:
        broken: list[Exception] = []  # what `pieces` raised, to tell it from what the store says

        def watched() -> Iterable[Buffer]:
            try:
                yield from pieces
            except Exception as error:
                broken.append(error)
                raise

        try:
            self._obstore.put(self._writes, key, watched(), chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)
        except Exception as error:
            if broken:
                raise broken[0] from None
            raise _refused(key, error) from error

    def read(self, key: str, start: int, end: int) -> Buffer:
        try:
            return memoryview(self._obstore.get_range(self._reads, key, start=start, end=end))
        except Exception as error:
            raise _refused(key, error) from error

    def size(self, key: str) -> int:
        try:
            return self._obstore.head(self._reads, key)["size"]
        except Exception as error:
            raise _refused(key, error) from error

    def delete(self, key: str) -> None:
        try:
            self._obstore.delete(self._writes, key)
        except FileNotFoundError:
            return
        except Exception as error:
            raise _refused(key, error) from error


class FolderObjects(ObstoreObjects):
    """A folder, on another disk if it is to be of use. An object is synced before it counts."""

    def __init__(self, folder: Path) -> None:
        from obstore.store import LocalStore

        super().__init__(LocalStore(folder, mkdir=True))
        self._folder = folder

    def put(self, key: str, pieces: Iterable[Buffer]) -> None:
        super().put(key, pieces)
        try:
            path = self._folder / key
            _sync(path)
            while path != self._folder:
                path = path.parent
                _sync(path)
        except OSError as error:
            raise StoreError(f"{key}: {error}") from error

    def delete(self, key: str) -> None:
        super().delete(key)
        path = self._folder / key
        try:
            for left in path.parent.glob(f"{path.name}#*"):  # obstore's name for an object that is being written
                left.unlink(missing_ok=True)
            for folder in (path.parent, path.parent.parent):
                if folder.is_dir() and folder != self._folder:
                    if any(folder.iterdir()):
                        _sync(folder)  # else a power loss brings the object back, and no row would name it
                        return
                    folder.rmdir()
            _sync(self._folder)
        except OSError as error:
            raise StoreError(f"{key}: {error}") from error


def open_store(url: str, options: Mapping[str, str], timeout_s: float) -> ObjectStore:
    """The store behind a URL: file:///path, or s3://bucket/prefix. Credentials come from the environment, as AWS names them.
    Raises InvalidConfig."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise InvalidConfig(f"{url} is not a folder: write file:///path")
        if options:
            raise InvalidConfig("a folder takes no headrace.archive.options")
        return _with_obstore(lambda: FolderObjects(Path(unquote(parts.path))), url)
    if parts.scheme == "s3":
        if not parts.netloc:
            raise InvalidConfig(f"{url} names no bucket: write s3://bucket/prefix")
        return _with_obstore(lambda: _s3(url, options, timeout_s), url)
    raise InvalidConfig(f"{url} can't hold an archive: give file:///path or s3://bucket/prefix")


SECRETS = frozenset({"secret_access_key", "access_key_id", "session_token", "token"})


def _s3(url: str, options: Mapping[str, str], timeout_s: float) -> ObjectStore:
    from obstore.store import S3Store

    names = {name.lower().removeprefix("aws_"): value for name, value in options.items()}
    if SECRETS & names.keys():
        raise InvalidConfig("credentials are not settings: give them in the environment (AWS_ACCESS_KEY_ID, …)")
    endpoint = names.get("endpoint") or names.get("endpoint_url") or os.environ.get("AWS_ENDPOINT_URL_S3")
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
    config: Any = names
    retry: Any = {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=timeout_s)}

    def client(seconds: float) -> Any:
        return {
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=min(5.0, seconds)),
            "timeout": timedelta(seconds=seconds),
        }

    reads = S3Store.from_url(url, config=config, client_options=client(timeout_s), retry_config=retry)
    # a part of an upload is larger than what a reader waits for, and nobody waits for it
    writes = S3Store.from_url(url, config=config, client_options=client(6 * timeout_s), retry_config=retry)
    return ObstoreObjects(reads, writes)


def _with_obstore(make: Any, url: str) -> ObjectStore:
    try:
        store: ObjectStore = make()
    except ImportError:
        raise InvalidConfig("an archive needs obstore: pip install 'headrace[archive]'") from None
    except InvalidConfig:
        raise
    except Exception as error:
        raise InvalidConfig(f"{url} can't be used as an archive: {_first_line(error)}") from error
    return store


def _refused(key: str, error: Exception) -> StoreError:
    kind = MissingObject if isinstance(error, FileNotFoundError) else StoreError
    return kind(f"{key}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).split("\n", 1)[0]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
