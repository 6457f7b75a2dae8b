"""Execute a notebook in a kernel of its own, whose sockets no other kernel can take."""

import logging
import os
import signal
import tempfile
from pathlib import Path

from traitlets.config import Config

__all__ = ["execute", "stop_like_ctrl_c"]
STARTS = 3  # how often a kernel that dies before its first answer is started


def _transport(folder: str) -> Config:
    """How a kernel is reached: by files in a folder of its own, where the system can.

    A TCP port is chosen before the kernel binds it, so that two that start at once may get one.
    """
    if os.name != "posix":
        return Config()
    connection = str(Path(folder) / "kernel.json")
    return Config(KernelManager={"transport": "ipc", "connection_file": connection})


def execute(notebook: Path, copy: Path, parameters: dict, timeout: float | None) -> None:
    """Run `notebook` with `parameters` into `copy`; no cell may take more than `timeout` seconds.

    Raises PapermillException for an error in a cell, RuntimeError for a kernel that died and
    OSError for one that took too long.
    """
    import papermill  # here, so that storage.py can say that it is not installed

    for tries_left in reversed(range(STARTS)):
        try:
            # Short: the path of a socket has at most 104 characters.
            with tempfile.TemporaryDirectory(prefix="aot-") as folder:
                papermill.execute_notebook(
                    str(notebook),
                    str(copy),
                    parameters,
                    cwd=str(notebook.parent),
                    kernel_name="python3",
                    language="python",
                    progress_bar=False,
                    execution_timeout=timeout,
                    extra_arguments=["--log-level=CRITICAL"],  # cells show errors
                    config=_transport(folder),
                )
            return
        except RuntimeError as error:
            if "before replying to kernel_info" not in str(error) or not tries_left:
                raise


def stop_like_ctrl_c() -> None:
    """Let SIGTERM, which clusters send before they kill, end a process as Ctrl-C does.

    What only SIGTERM ended would leave its kernels behind.
    """
    # What an interrupted notebook leaves behind in asyncio is no news: our own line tells it.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)

    def stop(number, frame):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
