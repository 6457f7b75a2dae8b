"""The process around everything: threads that sleep, streams that print, memory that stays."""

import ctypes
import os
import platform
import sys


def let_waiting_threads_sleep() -> None:
    """Have OpenMP's idle threads sleep; call it before torch is loaded, which reads this once.

    With more threads than free cores OpenMP otherwise spins, and tiny models train many times
    slower.
    """
    if "torch" not in sys.modules:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def print_what_a_stream_lacks() -> None:
    """Print "?" where a stream has no "■" or "…", as a C locale and a pipe of Windows have not."""
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", "") == "strict" and "utf" not in stream.encoding.lower():
            stream.reconfigure(errors="replace")


def keep_freed_memory() -> None:
    """Have Linux keep freed memory: to give it back makes small models train a third slower."""
    if platform.libc_ver()[0] == "glibc":
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            ctypes.CDLL(None).mallopt(option, 1 << 30)


def show_widgets_on_colab() -> None:
    """Switch custom widgets on where Colab runs the notebook; elsewhere they are."""
    if "google.colab" in sys.modules:
        from google.colab import output

        output.enable_custom_widget_manager()
