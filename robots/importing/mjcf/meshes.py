"""Meshes among the assets of an MJCF file, for drawings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from robots.importing.meshes import Meshes
from robots.importing.mjcf.document import Defaults
from robots.importing.mjcf.geoms import Geom
from robots.importing.notes import Notes
from robots.importing.xml_reader import Element
from sim_core.mechanism import Shape

PLACED = ("refpos", "refquat")


class MeshAssets:
    """Reads the meshes of geoms, which name a <mesh> element in the section <asset> of the file.

    folder  folder of the model file
    """

    def __init__(
        self, root: Element, defaults: Defaults, compiler: Mapping[str, str], folder: Path, notes: Notes
    ) -> None:
        self._meshes, self._notes = Meshes(folder / compiler.get("meshdir", compiler.get("assetdir", "")), notes), notes
        self._strips = compiler.get("strippath", "false") == "true"
        self._assets: dict[str, Element] = {}
        for holder in root.all("asset"):
            for child in holder.all("mesh"):
                element = defaults.applied(child)
                name = element.attributes.get("name") or Path(element.attributes.get("file", "")).stem
                element.label = f"mesh {name!r}"
                self._assets[name] = element

    def shapes(self, geom: Geom, color: str) -> tuple[Shape, ...]:
        """The shape of a geom that is a mesh; empty, with a note, if it cannot be drawn."""
        asset = self._assets.get(geom.element.attributes.get("mesh", ""))
        if asset is None:
            self._notes.add(geom.element, "it has no mesh among the assets, and is not drawn")
            return ()
        if "file" not in asset.attributes or any(name in asset.attributes for name in PLACED):
            self._notes.add(asset, f"a mesh without a file, or with {' or '.join(PLACED)}, is not drawn")
            return ()
        name = asset.text("file")
        scale = asset.numbers("scale", 3, (1.0, 1.0, 1.0))
        shape = self._meshes.shape(asset, Path(name).name if self._strips else name, scale, geom.p, geom.R, color)
        return () if shape is None else (shape,)
