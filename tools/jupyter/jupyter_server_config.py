"""Read by the Jupyter server of `make lab`: it opens a notebook without changing it."""


def without_version(model, **_):
    """Drop the reader's version of Python, which JupyterLab writes into each notebook it opens."""
    if model["type"] == "notebook":
        model["content"]["metadata"].get("language_info", {}).pop("version", None)


get_config().FileContentsManager.pre_save_hook = without_version
