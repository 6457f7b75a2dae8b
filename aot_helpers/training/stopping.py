"""The stop button of a training run, held back until a step is whole."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def stop_button() -> Iterator[list]:
    """Hold the stop button (SIGINT) back, so that no step is cut in two; yield the presses.

    Where the button does nothing, as in threads and in the background of a shell, that stays.
    """
    presses, handler = [], signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler == signal.SIG_IGN:
        yield presses
        return
    signal.signal(signal.SIGINT, lambda *_: presses.append(True))
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, handler)
