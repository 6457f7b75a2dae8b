"""Make the moving pictures in data/results/figures again: `make loops`, or `tools/loops.py NAME …`.

training: the README's, a training of stories-2l that is dragged from its first step to its last.
torus: a whole network of notebook 13, from its map to the globe. They are drawn from shipped files
only.
"""

import io
from collections.abc import Callable, Iterable

import numpy as np
from PIL import Image

import here
from aot_helpers.base.files import write_atomically
from aot_helpers.base.results import RESULTS
from chapters.nb13_torus_network.journey import Journey
from chapters.torus.runs import list_runs, load_run
from evidence.support.nb09.dragged import film, read_name

COLORS = 96


def training() -> Iterable[tuple[np.ndarray, int]]:
    title = "When does a network learn to copy a name that it has never read?"
    return film(read_name("Quzo Fipja"), title)


def torus() -> Iterable[tuple[np.ndarray, int]]:
    run = "heads3-dim3"
    return Journey(load_run(run).nets[0], list_runs()[run].targets()[0]).film()


LOOPS: dict[str, Callable] = {"training": training, "torus": torus}


def gif(frames: Iterable[tuple[np.ndarray, int]]) -> bytes:
    """(picture [y, x, 3], milliseconds) of each frame as a loop of one palette, without dither."""
    pictures, long = zip(*((Image.fromarray(each), ms) for each, ms in frames), strict=True)
    some = pictures[:: max(1, len(pictures) // 12)]
    sheet = Image.new("RGB", (some[0].width, some[0].height * len(some)))
    for i, each in enumerate(some):
        sheet.paste(each, (0, i * each.height))
    palette = sheet.quantize(
        COLORS, method=Image.Quantize.MEDIANCUT, kmeans=1, dither=Image.Dither.NONE
    )
    few = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in pictures]
    few[0].save(
        packed := io.BytesIO(),
        format="gif",
        save_all=True,
        append_images=few[1:],
        duration=list(long),
        loop=0,
        optimize=True,
    )
    return packed.getvalue()


def main() -> None:
    """Make the loops that are named, or all."""
    for name in here.names_of_command(__doc__, LOOPS):
        content = gif(LOOPS[name]())
        write_atomically(RESULTS / "figures" / f"{name}.gif", content)
        print(f"{name}.gif: {len(content) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
