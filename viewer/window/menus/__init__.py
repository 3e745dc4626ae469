"""Menus, shortcuts and mouse gestures of the window, from one table of commands."""
