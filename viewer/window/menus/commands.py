"""Tables of the window's commands, keys and mouse gestures.

The menus, the shortcuts and the help page (F1) are made from these tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyqtgraph.Qt import QtCore

_BUTTONS, _KEYS = QtCore.Qt.MouseButton, QtCore.Qt.KeyboardModifier
LIVE, RECORDING = "live", "recording"


@dataclass(frozen=True)
class Command:
    """One entry of a menu.

    name  method that the entry calls, as a path from the window such as "files.open_layout"
    arguments  arguments of the method
    keys  shortcuts as Qt writes them; the menu shows the first one
    when  kind of run to which the command applies, "live" or "recording"; "" for both kinds
    """

    name: str
    menu: str
    text: str
    keys: tuple[str, ...] = ()
    when: str = ""
    separated: bool = False
    arguments: tuple[Any, ...] = ()

    @property
    def key(self) -> str:
        """Name of the command with its arguments, which no other command of a window has."""
        return " ".join(map(str, (self.name, *self.arguments)))


COMMANDS = (
    Command("files.open_recording", "File", "Open recording ...", ("Ctrl+O",)),
    Command("files.overlay_recording", "File", "Overlay a recording ...", ("Ctrl+L",)),
    Command("files.open_layout", "File", "Load layout ...", ("Ctrl+Shift+O",), separated=True),
    Command("files.save_layout_as", "File", "Save layout ...", ("Ctrl+S",)),
    Command("files.save_picture", "File", "Save picture of the window ...", ("Ctrl+P",), separated=True),
    Command("files.save_film", "File", "Save film of the recording ...", ("Ctrl+M",), RECORDING),
    Command("close", "File", "Quit", ("Ctrl+Q",), separated=True),
    Command("history.stack.undo", "View", "Undo change of the view", ("Ctrl+Z",)),
    Command("history.stack.redo", "View", "Redo change of the view", ("Ctrl+Shift+Z", "Ctrl+Y")),
    Command("fit_all", "View", "Fit everything", ("F",), separated=True),
    Command("toggle_theme", "View", "Dark or light colours", ("Ctrl+T",)),
    Command("toggle_measured", "View", "Measured robot over the model", ("M",)),
    Command("view_automatic", "View", "Automatic camera", ("0",), separated=True),
    Command("scene.look", "View", "Front", ("1",), arguments=("front",)),
    Command("scene.look", "View", "Side", ("2",), arguments=("side",)),
    Command("scene.look", "View", "Top", ("3",), arguments=("top",)),
    Command("scene.look", "View", "Isometric", ("4",), arguments=("isometric",)),
    Command("scene.follow_next", "View", "Follow the next body", ("B",), separated=True),
    Command("scene.unfollow", "View", "Follow no body", ("Shift+B",)),
    Command("plots.add_plot", "Plots", "Add an empty plot", ("Ctrl+N",)),
    Command("plots.remove_plot", "Plots", "Remove the current plot", ("Ctrl+W",)),
    Command("plots.toggle_log", "Plots", "Logarithmic axis of the current plot", ("L",)),
    Command("default_plots", "Plots", "Default plots", ("Ctrl+D",), separated=True),
    Command("docks.find_field", "Plots", "Find a field", ("Ctrl+F",), separated=True),
    Command("toggle_difference", "Plots", "Difference to the first recording", ("D",), separated=True),
    Command("toggle_alignment", "Plots", "Overlaid runs: equal times or equal starts", ("A",)),
    Command("plots.set_interval", "Plots", "Clear the selected interval", ("Esc",), arguments=(None,)),
    Command("events.next", "Plots", "Next event", ("]",), separated=True),
    Command("events.previous", "Plots", "Previous event", ("[",)),
    Command("playback.play_or_pause", "Time", "Play or pause", ("Space",), RECORDING),
    Command("playback.step", "Time", "Next frame", ("Right",), RECORDING, separated=True, arguments=(1,)),
    Command("playback.step", "Time", "Previous frame", ("Left",), RECORDING, arguments=(-1,)),
    Command("playback.step", "Time", "Ten frames ahead", ("Shift+Right",), RECORDING, arguments=(10,)),
    Command("playback.step", "Time", "Ten frames back", ("Shift+Left",), RECORDING, arguments=(-10,)),
    Command("playback.go_to_start", "Time", "Start of the recording", ("Home",), RECORDING),
    Command("playback.go_to_end", "Time", "End of the recording", ("End",), RECORDING),
    Command("timeline.change_factor", "Time", "Play faster", ("+", "="), RECORDING, separated=True, arguments=(1,)),
    Command("timeline.change_factor", "Time", "Play slower", ("-",), RECORDING, arguments=(-1,)),
    Command("docks.steering.pause_or_resume", "Simulation", "Pause or resume", ("Space",), LIVE),
    Command("docks.steering.step", "Simulation", "Step", (".",), LIVE),
    Command("docks.steering.reset", "Simulation", "Reset", ("Ctrl+R",), LIVE),
    Command("docks.steering.record", "Simulation", "Record, or end the recording", ("Ctrl+E",), LIVE, separated=True),
    Command("docks.steering.emergency_stop", "Simulation", "Emergency stop", ("F12",), LIVE, separated=True),
    Command("docks.steering.release_stop", "Simulation", "Release the emergency stop", (), LIVE),
    Command("files.go_on", "Time", "Go on from here ...", ("Ctrl+G",), RECORDING, separated=True),
    Command("show_shortcuts", "Help", "Keys and mouse", ("F1",)),
)


@dataclass(frozen=True)
class Gesture:
    """A drag with the mouse.

    name  name of the gesture in the program
    text  description on the page of shortcuts
    """

    name: str
    text: str
    area: str
    button: int
    modifier: int = int(_KEYS.NoModifier)


GESTURES = (
    Gesture("orbit", "drag: turn the camera", "scene", int(_BUTTONS.LeftButton)),
    Gesture("pan", "drag: move the camera", "scene", int(_BUTTONS.MiddleButton)),
    Gesture("pan", "drag: move the camera", "scene", int(_BUTTONS.LeftButton), int(_KEYS.ShiftModifier)),
    Gesture("zoom", "drag: zoom", "scene", int(_BUTTONS.RightButton)),
    Gesture("push", "drag on a body: push it (live)", "scene", int(_BUTTONS.LeftButton), int(_KEYS.ControlModifier)),
    Gesture("select", "drag: select an interval of time", "plot", int(_BUTTONS.LeftButton)),
    Gesture("pan", "drag: move both axes", "plot", int(_BUTTONS.MiddleButton)),
    Gesture("pan", "drag: move both axes", "plot", int(_BUTTONS.LeftButton), int(_KEYS.ShiftModifier)),
)
# what is not a drag: (area, use of the mouse, effect)
OTHER_GESTURES = (
    ("scene", "wheel", "zoom at the pointer"),
    ("scene", "double click", "fit the robot into the picture"),
    ("plot", "wheel", "zoom the time axis of all plots; beside them, scroll"),
    ("plot", "Ctrl + wheel", "zoom the value axis"),
    ("plot", "click", "make the plot the current one; in a recording, go to that time"),
    ("plot", "double click", "fit both axes"),
    ("plot", "right click", "menu: remove curves, logarithmic axis, remove the plot"),
    ("topics", "double click on a field", "add it to the current plot, or to a new one where the unit differs"),
    ("topics", "drag of a field", "add it to the plot under the pointer"),
    ("time slider", "click", "go to that time"),
)


def gesture(area: str, button: object, modifiers: object) -> str:
    """Name of the gesture that a mouse drag in this area of the window means; "" if the table has no such gesture."""
    both = int(_KEYS.ShiftModifier) | int(_KEYS.ControlModifier)
    pressed = int(modifiers) & both  # type: ignore[call-overload]
    for row in GESTURES:
        if (row.area, row.button, row.modifier) == (area, int(button), pressed):  # type: ignore[call-overload]
            return row.name
    return ""


def gesture_keys(row: Gesture) -> str:
    """Button and modifier of a gesture as text, such as "Shift + left"."""
    buttons = {
        int(_BUTTONS.LeftButton): "left",
        int(_BUTTONS.MiddleButton): "middle",
        int(_BUTTONS.RightButton): "right",
    }
    modifiers = {int(_KEYS.NoModifier): "", int(_KEYS.ShiftModifier): "Shift + ", int(_KEYS.ControlModifier): "Ctrl + "}
    return modifiers[row.modifier] + buttons[row.button]
