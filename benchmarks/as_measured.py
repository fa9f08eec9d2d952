"""How chorus was set when results/conditions and results/remote were made, where its defaults are others now."""

AS_MEASURED = (
    *("spread=1", "pictures=painted", "distil.classes=apart", "distil.optimiser=adam"),
    *("net.arch=conv4", "net.width=32"),
)
