"""Share each reading of an engine between all pages that show it.

The engine is therefore asked only once for the same reading.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from concurrent.futures import Future

from specviz.errors import InputError
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_replicas import EngineReading, read_now

MOST_KEPT = 256  # largest number of readings that are stored


class SharedReadings:
    """The last reading of each address and key. It is kept for `seconds` after it arrived.

    Every request within that time gets the same reading or the same error sentence. Keys are stored
    only as hashes, made with a secret of this process.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._kept: dict[bytes, _Shared] = {}

    def read(self, address: EngineAddress, replicas: int = 1) -> EngineReading:
        """Return a reading that is at most `seconds` old.

        Raises InputError if the server gives none.
        """
        name = self._name(address)
        with self._lock:
            self._drop_old()
            shared = self._kept.get(name)
            is_first = shared is None
            if shared is None:
                shared = self._kept[name] = _Shared()
        if is_first:
            shared.fill(address, replicas)
        found = shared.reading.result()
        if isinstance(found, str):
            raise InputError(found)
        return found

    def _name(self, address: EngineAddress) -> bytes:
        text = f"{address}\n{address.key}".encode()
        return hashlib.blake2b(text, key=self._secret, digest_size=32).digest()

    def _drop_old(self) -> None:
        oldest = time.monotonic() - self._seconds
        self._kept = {name: each for name, each in self._kept.items() if each.came >= oldest}
        while len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]


class _Shared:
    """A reading or an error sentence, and the time when it arrived.

    `came` is infinite while the reading is awaited.
    """

    def __init__(self) -> None:
        self.came = float("inf")
        self.reading: Future[EngineReading | str] = Future()

    def fill(self, address: EngineAddress, replicas: int) -> None:
        try:
            found: EngineReading | str = read_now(address, replicas)
        except InputError as error:
            # the sentence is stored because an exception object would keep a reference to the
            # address and its key
            found = str(error)
        except BaseException:
            found = "the server could not be read"
            raise
        finally:
            self.came = time.monotonic()
            self.reading.set_result(found)
