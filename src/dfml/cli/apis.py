"""`dfml apis init URL...` writes a first manifest from what servers tell; `dfml apis schema` helps editors with it."""

import argparse
import json
from pathlib import Path
from typing import Any


def add(verbs: Any) -> None:
    apis = verbs.add_parser("apis", help="write a first manifest of servers, or print the manifest's JSON schema")
    actions = apis.add_subparsers(dest="action", required=True, metavar="init|schema")

    init = actions.add_parser("init", help="a manifest of the models that servers tell of; costs no query")
    init.add_argument("urls", nargs="+", metavar="URL", help="such as http://127.0.0.1:8000")
    init.add_argument("--model", action="append", default=[], metavar="NAME", help="where the server lists none")
    init.add_argument("--protocol", choices=("inference_v2", "tf_serving", "huggingface"), help="if you know it")
    init.add_argument(
        "--header", action="append", default=[], metavar="'NAME: ${ENV}'", help="kept in the manifest as you write it"
    )
    init.add_argument("--out", type=Path, metavar="FILE", help="instead of standard output")
    init.set_defaults(run=run_init, computes=False)

    schema = actions.add_parser("schema", help="print the JSON schema of apis.toml")
    schema.set_defaults(run=run_schema, computes=False)


def run_init(args: argparse.Namespace) -> None:
    import os
    import sys

    from dfml.apis.loading import secret_headers
    from dfml.apis.manifest import manifest_text
    from dfml.apis.remote.discovery import Found, discover
    from dfml.errors import ConfigError
    from dfml.files import write_whole

    headers = {}
    for line in args.header:
        name, colon, value = line.partition(":")
        if not colon or not name.strip() or not value.strip():
            raise ConfigError("--header takes a name and a value, such as 'Authorization: Bearer ${TOKEN}'")
        headers[name.strip()] = value.strip()
    found = Found()
    for url in args.urls:
        secrets = secret_headers(headers, os.environ, "--header")
        discover(url, args.model, found, protocol=args.protocol, headers=secrets)
    text = manifest_text(found.entries, headers=headers, notes=found.open)
    if args.out is None:
        print(text, end="")
    else:
        if args.out.exists():
            raise ConfigError(f"{args.out} exists already; move it away or name another --out")
        write_whole(args.out, text.encode())
    for note in found.open:
        print(f"dfml: {note}", file=sys.stderr)


def run_schema(args: argparse.Namespace) -> None:
    from dfml.apis.manifest import manifest_schema

    print(json.dumps(manifest_schema(), indent=2))
