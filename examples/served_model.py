"""Models behind a server: ask what it has, see what a question costs, learn within a budget, and check the bill.

dfml zoo build --apis 6 --out zoo/ && dfml serve zoo/ --port 8000     # or any server of docs/endpoints.md
python examples/served_model.py http://127.0.0.1:8000
"""

import sys
from pathlib import Path

import dfml
from dfml.apis.manifest import manifest_text
from dfml.apis.remote.discovery import Found, discover

URL, BUDGET, OUT = sys.argv[1], 1500, "run-served/"

# 1. A manifest from what the server tells of itself; costs no query. A real one also names prices and secrets.
found = Found()
discover(URL, [], found, protocol=None, headers={})
Path("apis.toml").write_text(manifest_text(found.entries, headers={}, notes=found.open))
print(f"{len(found.entries)} models at {URL}: {', '.join(found.entries)}")

# 2. Learn. Whatever goes wrong on the way, the same command goes on where it stopped and pays for nothing twice.
init = dfml.learn("apis.toml", OUT, budget=BUDGET, resume=True)

# 3. The bill, as the ledger has it.
bill = dfml.spending(OUT)
for name, api in bill["apis"].items():
    print(f"{name}: {api['queries']} answers, {api['unusable']} unusable, {api['in_doubt']} in doubt")
print(f"{bill['queries']} of at most {BUDGET} queries; the initialisation is in {OUT}")
