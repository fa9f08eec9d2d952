"""Files of ours: tensors and a description in one safetensors file, written whole or not at all, and no pickle."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from dfml.errors import ArtifactError


class OtherFormat(ArtifactError):
    """A file of ours in a format that this version does not read."""


def write_whole(path: Path, content: bytes) -> None:
    """Replace `path` in one step: a reader sees the old content or the new, also after a crash."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise ArtifactError(
            f"cannot write {path}: {error.strerror}; free some space or choose another folder"
        ) from None


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], *, kind: str, version: int, about: Mapping[str, Any]
) -> None:
    """One file that says what it is: `kind`, `version` and the JSON-able `about` beside the tensors."""
    header = {"dfml": kind, "version": str(version), "about": json.dumps(about)}
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, save(plain, metadata=header))


def load_tensors(path: Path, *, kind: str, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the `about` of a file of this kind and version; anything else is an `ArtifactError`."""
    if not path.is_file():
        raise ArtifactError(f"{path} does not exist; expected a {kind} that dfml saved")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError) as error:
        raise ArtifactError(f"{path} is damaged or no safetensors file ({error}); expected a dfml {kind}") from None
    if header.get("dfml") != kind:
        raise ArtifactError(
            f"{path} holds {header.get('dfml', 'something else')}, not a dfml {kind}; name another file"
        )
    if header.get("version") != str(version):
        raise OtherFormat(
            f"{path} is a {kind} of format {header.get('version')}, this dfml reads format {version}; "
            "make it anew or use the dfml that wrote it"
        )
    try:
        about = json.loads(header.get("about", ""))
    except json.JSONDecodeError:
        raise ArtifactError(f"{path} is a dfml {kind} with a damaged description; make it anew") from None
    return tensors, about
