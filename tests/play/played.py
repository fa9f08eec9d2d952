"""Pictures of one colour, and a page that is being served; not a test itself."""

import io
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
from PIL import Image

from dfml.play.studio import Studio

COLOURS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1)}


def coloured(colour: str, seed: int, *, side: int = 40, kind: str = "PNG", tint: float = 0.6) -> bytes:
    """A noisy picture of one colour, as a file."""
    noise = np.random.default_rng(seed).random((side, side, 3))
    pixels = (255 * ((1 - tint) * noise + tint * np.array(COLOURS[colour]))).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


@dataclass(frozen=True)
class Played:
    """A page that is being served."""

    address: str
    studio: Studio
    client: httpx.Client

    def ask(self, path: str) -> Any:
        return self.client.get(path).raise_for_status().json()

    def tell(self, path: str, message: Any) -> Any:
        return self.client.post(path, json=message).raise_for_status().json()

    def add(self, file: bytes, into: int | None = None, name: str = "a.png") -> Any:
        query = {"name": name} | ({} if into is None else {"into": str(into)})
        return self.client.post("api/pictures", content=file, params=query).raise_for_status().json()

    def teach(self, count: int = 3) -> dict[str, int]:
        """Three classes of coloured pictures; their numbers by name."""
        numbers = {}
        for name, number in zip(COLOURS, [*self.studio.album.classes, None], strict=True):
            told = self.client.patch(f"api/classes/{number}", json={"name": name}) if number is not None else None
            numbers[name] = (told.json() if told else self.tell("api/classes", {"name": name}))["number"]
        for name, number in numbers.items():
            for seed in range(count):
                assert "number" in self.add(coloured(name, seed), number)
        return numbers
