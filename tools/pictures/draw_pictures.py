"""Draw the pictures of the documents: `python -m tools.pictures.draw_pictures`; `--check` names what is out of date.

Each is made of what the package answers as it is drawn, without Spark.
"""

from __future__ import annotations

import sys

from tools.pictures import home_picture, lake_picture, log_pictures, owner_pictures, time_pictures

GALLERIES = (
    home_picture.GALLERY,
    lake_picture.GALLERY,
    log_pictures.GALLERY,
    owner_pictures.GALLERY,
    time_pictures.GALLERY,
)


def main(arguments: list[str]) -> int:
    """Draw all pictures; with `--check` name those that are not as they would be drawn."""
    stale = [(gallery, name) for gallery in GALLERIES for name in gallery.drawn if gallery.is_stale(name)]
    for gallery, name in stale:
        print(f"{gallery.directory}/{name}")
        if "--check" not in arguments:
            gallery.draw(name)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
