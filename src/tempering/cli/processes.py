"""One run by several processes: how they find each other, which of them speaks, and how they end together."""

import ctypes
import os
import signal
import sys
import traceback
from typing import Annotated, NoReturn

from typer import Option

from tempering._errors import InputError

EXIT_LOST = 4
"""The status of a process that lost the others."""
_HEARTBEAT_SECONDS = 30  # without a sign of life after which a process counts as dead
_ABORTED = 134  # 128 and the number of the signal, as shells have it
_KEPT: list[object] = []  # functions that C calls must not be collected
_JOIN_SECONDS = 300  # for all processes to begin
# How many processes a launcher has started; JAX finds the rest of what it needs itself.
_LAUNCHERS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")

CoordinatorFlag = Annotated[
    str | None, Option(help="For a run of several processes: HOST:PORT of process 0. srun and mpirun need no flag.")
]
NumProcessesFlag = Annotated[int | None, Option(help="With --coordinator: how many processes there are.")]
ProcessIdFlag = Annotated[int | None, Option(help="With --coordinator: the number of this one, from 0.")]


def join_processes(coordinator: str | None, num_processes: int | None, process_id: int | None) -> None:
    """Wait until all processes of the run are there. Must come before anything is computed.

    Args:
        coordinator: HOST:PORT of process 0; None where a launcher says it, or where there is one process.
        num_processes: How many there are.
        process_id: The number of this one.
    """
    given = [value is not None for value in (coordinator, num_processes, process_id)]
    is_launched = any(_number(os.environ.get(name)) > 1 for name in _LAUNCHERS)
    if any(given) and not all(given):
        raise InputError("--coordinator, --num-processes and --process-id belong together: give all three, or none.")
    if all(given):
        _check(str(coordinator), int(num_processes or 0), int(process_id or 0))
    elif not is_launched:
        return
    import jax

    jax.config.update("jax_enable_preemption_service", False)  # signals are ours
    try:
        jax.distributed.initialize(
            coordinator, num_processes, process_id,
            cluster_detection_method="deactivate" if coordinator else None,
            initialization_timeout=_JOIN_SECONDS, heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=_HEARTBEAT_SECONDS,
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        raise InputError(f"The processes of this run did not find each other: {_first_line(error)}") from error
    _keep_stdout_for_answers(is_open=jax.process_index() == 0)
    _end_clearly_where_jax_aborts()


def are_several() -> bool:
    """Whether this is one of several processes."""
    if "jax" not in sys.modules:
        return False
    import jax

    return jax.distributed.is_initialized() and jax.process_count() > 1


def speaks() -> bool:
    """Whether this process is the one that speaks."""
    return number_of_this() == 0


def number_of_this() -> int:
    """The number of this process, from 0."""
    if not are_several():
        return 0
    import jax

    return jax.process_index()


def have_all_ended() -> bool:
    """Wait for the other processes to end too; False where they do not."""
    import jax

    try:
        jax.distributed.shutdown()
    except RuntimeError:
        return False
    return True


def leave(status: int) -> NoReturn:
    """End at once, without waiting for the others, which may be gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def leave_after(error: Exception) -> NoReturn:
    """End one of several processes after what it did not expect: most often, that another one has ended.

    Args:
        error: What happened.
    """
    import jax

    if isinstance(error, jax.errors.JaxRuntimeError) or "Gloo" in str(error):  # which comes as a ValueError
        _leave_lost(_first_line(error))
    traceback.print_exception(error)
    leave(1)


def _leave_lost(why: str) -> NoReturn:
    """End with the line that says how to go on."""
    from tempering.cli.common import how_to_go_on

    print(how_to_go_on(f"Error: another process of this run has ended ({why})"), file=sys.stderr)
    leave(EXIT_LOST)


def _end_clearly_where_jax_aborts() -> None:
    """Turn the end that JAX chooses where another process is gone, an abort with a page of words, into one line.

    JAX learns of it in a thread of its own, and offers no other way in: a callback in Python ends in an abort as well.
    From here on what libraries in C write to standard error is kept in memory, and shown where it has another cause.
    """
    words = os.memfd_create("words of libraries") if hasattr(os, "memfd_create") else None
    if words is None:  # not on Linux
        return
    old = sys.stderr
    sys.stderr = open(os.dup(2), "w", encoding=old.encoding, errors=old.errors, buffering=1)  # noqa: SIM115
    os.dup2(words, 2)

    def end(_: int) -> None:
        said = os.pread(words, 2**16, 0).decode(errors="replace")
        if "coordination" in said or "distributed service" in said:
            _leave_lost("it sends no sign of life")
        print(said, file=sys.stderr)
        leave(_ABORTED)

    _KEPT.append(ctypes.CFUNCTYPE(None, ctypes.c_int)(end))
    ctypes.CDLL(None).signal(int(signal.SIGABRT), _KEPT[-1])


def _keep_stdout_for_answers(*, is_open: bool) -> None:
    """Let only Python write to standard output, or nobody: the library that joins CPUs greets its peers there."""
    old = sys.stdout
    nowhere = os.open(os.devnull, os.O_WRONLY)
    descriptor = os.dup(1) if is_open else nowhere
    sys.stdout = open(  # noqa: SIM115  open until the end
        descriptor, "w", encoding=old.encoding, errors=old.errors, buffering=1 if old.isatty() else -1
    )
    os.dup2(nowhere, 1)


def _check(coordinator: str, num_processes: int, process_id: int) -> None:
    host, _, port = coordinator.rpartition(":")
    if not host or not 0 < _number(port) < 2**16:
        raise InputError(f"--coordinator must be HOST:PORT, as in 10.0.0.1:1234; got {coordinator!r}.")
    if num_processes < 1:
        raise InputError(f"--num-processes must be 1 or more, got {num_processes}.")
    if not 0 <= process_id < num_processes:
        raise InputError(f"--process-id must be from 0 to {num_processes - 1}, got {process_id}.")


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else 0


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:160]
