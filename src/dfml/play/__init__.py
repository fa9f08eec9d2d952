"""A page on this machine to play with: teach a classifier by pictures, try it, ask APIs, save it.

It stands on what `dfml` gives to everybody, on `report`, and on `data` for reading pictures.
"""
