"""N processes on this machine in one gloo group, that run the functions they are given: for tests, checks and trials.

Training is launched by ``torchrun``; here one program drives all ranks and sees what each of them returns or raises:

    with WorkerPool(4) as pool:
        sums = pool.call(train, 100)        # train(100) on every rank, inside an initialised process group

Functions go to the workers by name, so they must stand at the top of a module, as with ``multiprocessing``. Each call
finds modules where the caller would (``sys.path``), also in a pool that was started before that path was. A worker
keeps its modules between two calls, so what a function leaves in a global is there for the next one.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import distributed as dist

from onebit_files import error_line

GRACE = 3.0
"""Seconds that the other workers get to answer once one has failed: they may wait for it in a collective."""


class WorkerDiedError(RuntimeError):
    """A worker process ended, or did not answer in time; the pool is closed."""


class NoAnswerError(WorkerDiedError):
    """A worker did not answer in time."""


class WorkerPool:
    """``n_workers`` processes; rank i is ``processes[i]``.

    Args:
        n_workers: N >= 1.
        timeout: seconds that a call may take, and that a collective waits for a rank.
        threads: torch's threads in each worker.
        entering: called with the rank in each worker before it joins the group; to the workers by name, as above.
    """

    _shared: ClassVar[dict[int, WorkerPool]] = {}

    def __init__(
        self,
        n_workers: int,
        *,
        timeout: float = 60.0,
        threads: int = 1,
        entering: Callable[[int], None] | None = None,
    ) -> None:
        if n_workers < 1:
            raise ValueError(f"n_workers must be an integer >= 1, got {n_workers!r}")
        context = multiprocessing.get_context("forkserver")
        # imports torch once, not N times; torch.optim would import torch._dynamo with the first optimizer
        context.set_forkserver_preload(["gpu_impl.harness.worker_pool", "torch._dynamo"])
        self.timeout = timeout
        self._folder = tempfile.TemporaryDirectory(prefix="onebit-workers-", ignore_cleanup_errors=True)
        store = str(Path(self._folder.name) / "store")
        self._pipes: list[Any] = []  # Connection, but for Windows
        self.processes: list[BaseProcess] = []
        try:
            for rank in range(n_workers):
                ours, theirs = context.Pipe()
                arguments = (theirs, rank, n_workers, store, timeout, threads, entering)
                process = context.Process(target=_serve, args=arguments, daemon=True, name=f"worker {rank}")
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self.processes.append(process)
        except BaseException as error:  # a signal: those that run already must not outlive this
            self.close()
            if isinstance(error, EOFError):
                raise WorkerDiedError("the process that starts the workers was ended from outside") from None
            raise
        atexit.register(self.close)

    @classmethod
    def of(cls, n_workers: int) -> WorkerPool:
        """The pool of that size that all callers share, started when first asked for, or again after it broke."""
        if n_workers not in cls._shared or cls._shared[n_workers].closed:
            cls._shared[n_workers] = cls(n_workers)
        return cls._shared[n_workers]

    @property
    def n_workers(self) -> int:
        """N."""
        return len(self.processes)

    @property
    def closed(self) -> bool:
        """Whether the workers have been ended."""
        return not self._pipes

    def call(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """``function(*arguments)`` on every worker; the results by rank. Errors as in :meth:`map`."""
        return self.map(function, [arguments] * self.n_workers)

    def map(self, function: Callable[..., Any], rows: Sequence[Sequence[Any]]) -> list[Any]:
        """``function(*rows[i])`` on worker i; the results by rank.

        Raises:
            WorkerDiedError: a worker ended or did not answer within the timeout.
            Exception: what the function raised on the lowest rank that failed, with the rank and the trace as a note.
        """
        outcomes = self.outcomes(function, rows)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if errors:
            raise min(errors, key=_how_far_from_the_cause)
        return outcomes

    def outcomes(self, function: Callable[..., Any], rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Like :meth:`map`, but an exception takes the place of the result of the rank that raised it.

        A worker that died, or did not answer in time, is a :class:`WorkerDiedError`; then the pool is closed.
        """
        if self.closed:
            raise WorkerDiedError("the workers have been ended: make a new pool")
        for pipe, row in zip(self._pipes, rows, strict=True):
            with contextlib.suppress(BrokenPipeError):  # it died before; found below
                # pickle, not pipe.send: multiprocessing's own would send a tensor as a file that the worker asks for
                pipe.send_bytes(pickle.dumps((sys.path, pickle.dumps((function, tuple(row))))))
        waiting = dict(enumerate(self._pipes))
        outcomes: list[Any] = [None] * self.n_workers
        end = time.monotonic() + self.timeout
        while waiting and (ready := wait(list(waiting.values()), max(0.0, end - time.monotonic()))):
            for rank in [rank for rank, pipe in waiting.items() if pipe in ready]:
                outcomes[rank] = self._receive(rank, waiting.pop(rank))
                if isinstance(outcomes[rank], BaseException):
                    end = min(end, time.monotonic() + GRACE)
        for rank in waiting:
            outcomes[rank] = NoAnswerError(f"worker {rank} did not answer in time")
        if any(isinstance(outcome, WorkerDiedError) for outcome in outcomes):
            self.close()
        return outcomes

    def _receive(self, rank: int, pipe: Connection) -> Any:
        try:
            good, answer = pickle.loads(pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            self.processes[rank].join(self.timeout)  # it is about to end: its pipe is closed
            return WorkerDiedError(f"worker {rank} died (exit code {self.processes[rank].exitcode})")
        if good or isinstance(answer, BaseException):
            return answer
        return RuntimeError(answer)

    def close(self) -> None:
        """End the workers. Safe to call twice."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()
        for pipe in self._pipes:
            pipe.close()
        self._pipes = []
        self._folder.cleanup()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _how_far_from_the_cause(error: BaseException) -> int:
    """A worker that ended is the cause; others raise for it, or wait for it and don't answer."""
    return 2 if isinstance(error, NoAnswerError) else 0 if isinstance(error, WorkerDiedError) else 1


def _serve(
    pipe: Connection,
    rank: int,
    n_workers: int,
    store: str,
    timeout: float,
    threads: int,
    entering: Callable[[int], None] | None,
) -> None:
    """A worker's life: join the group, then call what arrives until the pipe closes."""
    gc.freeze()  # every new optimizer looks through all objects for a DDP module: not through those of the libraries
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that drives us, and it ends us
    try:
        if entering is not None:
            entering(rank)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # what was blocked when the server of processes was started
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        torch.set_num_threads(threads)
        dist.init_process_group(
            "gloo",
            store=dist.FileStore(store, n_workers),  # pyright: ignore[reportPrivateImportUsage]
            rank=rank,
            world_size=n_workers,
            timeout=timedelta(seconds=timeout),
        )
    except Exception as error:  # heard by the first call
        with contextlib.suppress(BrokenPipeError):
            pipe.send_bytes(_packed(rank, WorkerDiedError(f"worker {rank} could not start: {error_line(error)}")))
        return
    _calm_gloo()
    while True:
        try:
            sys.path[:], call = pickle.loads(pipe.recv_bytes())
            function, arguments = pickle.loads(call)
        except EOFError:  # the program is gone
            return
        except Exception as error:  # a function that this process can't import
            pipe.send_bytes(_packed(rank, error))
            continue
        try:
            answer = pickle.dumps((True, function(*arguments)))
        except BaseException as error:
            answer = _packed(rank, error)
        pipe.send_bytes(answer)


def _calm_gloo() -> None:
    """Let gloo's polling thread wait for its turn, where Linux can do that: as a batch job it interrupts nobody.

    It polls its sockets without a pause while a message waits for a worker that is still busy. Where workers are more
    than processors, it keeps that worker waiting: collectives of four workers on two took four times as long.
    """
    for task in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # the thread has ended, or a sandbox forbids it
            if task.read_text().strip() == "gloo_tcp_loop":
                os.sched_setscheduler(int(task.parent.name), os.SCHED_BATCH, os.sched_param(0))


def _packed(rank: int, error: BaseException) -> bytes:
    """The exception with its trace as a note, or its text where it can't be pickled."""
    error.add_note(f"on worker {rank}:\n{traceback.format_exc()}")
    error.__cause__ = error.__context__ = None
    try:
        pickle.loads(data := pickle.dumps((False, error)))
    except Exception:
        return pickle.dumps((False, f"{type(error).__name__}: {error}"))
    return data
