"""A full disk, said in one sentence: what writes a tensor says "unexpected pos" or "file write failed" instead."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from gpu_impl.checkpoints.together import interruption_in
from gpu_impl.optimizer.collectives import CollectiveFailedError
from gpu_impl.optimizer.flat_params import local

WORDS = ("No space left", "quota exceeded", "File too large")
"""What the system calls it: ENOSPC, EDQUOT, EFBIG."""

CUT = ("unexpected pos", "file write failed")
"""What torch says where the system let it write a part alone, for the limit of a file's size say."""

MARGIN = 2**16
"""Bytes that a checkpoint takes beside its tensors, at least."""


@contextmanager
def told_if_full(folder: Path, tensors: Iterable[Tensor]) -> Iterator[None]:
    """Around writing ``tensors`` to ``folder``.

    Raises:
        OSError: it failed; if for want of space, then with what is needed and what is free.
        BaseException: a signal handler raised it in between.
        CollectiveFailedError: another worker died.
    """
    free = shutil.disk_usage(folder).free
    try:
        yield
    except CollectiveFailedError:
        raise
    except (OSError, RuntimeError) as error:
        if (interruption := interruption_in(error)) is not None:
            raise interruption from None  # torch ends its file all the same, and says that it is too short
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        needed = MARGIN + sum(local(tensor).nbytes for tensor in tensors)
        is_short = min(free, shutil.disk_usage(folder).free) < needed  # the other workers write there too
        said = any(word in str(error) for word in WORDS)
        cut = any(word in str(error) for word in CUT)
        if is_short or said or cut:
            raise OSError(
                f"the disk of {folder} is full, or this user may not write so much: this worker alone needs "
                f"about {needed / 1e6:.1f} MB there, and {free / 1e6:.1f} MB were free for all; nothing was saved"
                + (f" ({reason})" if said else "")
            ) from error
        if isinstance(error, OSError):
            raise
        raise OSError(f"the file could not be written to {folder}: {reason}") from error
