"""A checksum for each page of a stream, so that a part of it can be believed without the rest.

A page is ``PAGE_BYTES`` of the file, from a multiple of that on; the first and the last page of a
stream end where the stream does. So whoever wants one column checks the pages that it lies on, and
reads no more than those.
"""

from __future__ import annotations

from typing import Final

import crc32c
import numpy as np

from quiver.errors import DamagedEntry, InputError

__all__ = ["PAGE_BYTES", "PageChecks", "PageSums", "page_checksums"]

PAGE_BYTES: Final = 4096
_CHECKSUM = np.dtype("<u4")


def page_checksums(data: memoryview, offset: int) -> bytes:
    """Compute the CRC32C of each page of a stream that starts at ``offset``, in order."""
    sums = PageSums(offset)
    sums.add(data)
    return sums.found()


class PageSums:
    """Computes the checksums of the pages of a stream that starts at ``offset``, bytes by bytes."""

    def __init__(self, offset: int) -> None:
        self._start = self._end = offset
        self._pages: list[int] = []

    def add(self, data: memoryview) -> None:
        """Go over the next bytes."""
        if not data:
            return
        check, pages = crc32c.crc32c, self._pages
        first = -self._end % PAGE_BYTES
        if first and pages:
            pages[-1] = check(data[:first], pages[-1])
        elif first:
            pages.append(check(data[:first]))
        pages += [check(data[at : at + PAGE_BYTES]) for at in range(first, len(data), PAGE_BYTES)]
        self._end += len(data)

    def extend(self, other: PageSums) -> None:
        """Take over what another one found of the next bytes; both are at the start of a page."""
        if self._end % PAGE_BYTES or other._start % PAGE_BYTES:
            raise InputError("checksums of pages are put together in the middle of one")
        self._pages += other._pages
        self._end += other._end - other._start

    def copy(self) -> PageSums:
        """Give one that went over the same bytes."""
        copied = PageSums(self._start)
        copied.extend(self)
        return copied

    def found(self) -> bytes:
        """Give the checksums of all that came."""
        return np.array(self._pages, _CHECKSUM).tobytes()


class PageChecks:
    """Which pages of one stream have been checked so far. Not safe for several threads at once."""

    def __init__(self, data: memoryview, offset: int, checksums: bytes) -> None:
        """Take the stream's bytes, where it starts in its file, and its checksums.

        Raises DamagedEntry if there are not as many as it has pages.
        """
        self._data = data
        self._lead = offset % PAGE_BYTES
        if len(checksums) % _CHECKSUM.itemsize:
            raise DamagedEntry("page checksums end in the middle of one", found=len(checksums))
        self._expected = np.frombuffer(checksums, _CHECKSUM)
        count = -(-(self._lead + len(data)) // PAGE_BYTES)
        if len(self._expected) != count:
            raise DamagedEntry(
                "a stream has another number of page checksums than pages",
                expected=count,
                found=len(self._expected),
            )
        self._checked = np.zeros(count, bool)

    def check(self, start: int, end: int) -> None:
        """Check the pages of bytes ``[start, end)`` of the stream that were not checked before.

        Raises DamagedEntry with the offset of the first wrong page in the stream.
        """
        if end <= start:
            return
        first, last = (start + self._lead) // PAGE_BYTES, (end - 1 + self._lead) // PAGE_BYTES
        checked = self._checked[first : last + 1]
        if checked.all():
            return
        for page in (first + np.flatnonzero(~checked)).tolist():
            low = max(page * PAGE_BYTES - self._lead, 0)
            high = (page + 1) * PAGE_BYTES - self._lead
            found, expected = crc32c.crc32c(self._data[low:high]), int(self._expected[page])
            if found != expected:
                raise DamagedEntry(
                    "a page's checksum is wrong",
                    offset=low,
                    expected=f"{expected:#010x}",
                    found=f"{found:#010x}",
                )
        self._checked[first : last + 1] = True
