# ruff: noqa: RUF001 -- letters of different scripts that look alike are the subject of this file
"""Which characters are the classes of `glyphs`, and which scripts are seen in training, validation and test.

A character is here if DejaVu Sans and DejaVu Sans Bold both draw it and if it does not look like another one: turned,
sheared and stretched as the images are, their correlation stays below 0.9. So the capitals alpha of Greek and a of
Cyrillic are no classes beside the Latin A, and nothing that looks like a Latin U waits in the test part.
"""

import unicodedata

SCRIPTS: dict[str, dict[str, str]] = {
    "train": {
        "latin": "ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghkmnrtyßæðþŋʒɣɸ",
        "greek": "ΔΞΣΦΨΩαβδζθλμξπχω",
        "cyrillic": "ДЖЗИЛЦЧШЩЪЫЭЮЯЂЉЊѦѪҨӘ",
        "coptic": "ϢϤϦϨϪϬϮ",
        "arabic": "ءبجدرسطعفقكمنويتثخشضغه",
        "canadian syllabics": "ᐫᐭᐮᒈᓓᓕᓗᓬᓱᓴᔐᔥᔾᕂᕃᕄᕆᕒᕕᕗᕷᕿᖃᖊᖋᖏᖑᖓᖠᖢᖤᖧᖨᖪᙯᙳ",
    },
    "val": {
        "georgian": "აბგდეზთკლმნპჟრსტფქღყცჭჯ",
        "hebrew": "אבגדזכלמנעפצקרשתףך",
        "lao": "ກຂຄງຈຊຍດຕຖທນບປຜຝພມຣລວສຫອຮ",
    },
    "test": {
        "armenian": "ԲԳԴԵԶԷԸԹԺԽԾՀՁՃՄՆՇՉՊՋՌՎՐՑՒՔՖ",
        "tifinagh": "ⴱⴳⴻⴼⴽⴾⴿⵁⵂⵃⵄⵆⵇⵈⵋⵌⵐⵒⵓⵖⵗⵘⵚⵛⵜⵣⵤ",
        "nko": "ߏߐߑߒߔߖߗߘߚߛߜߝߞߟߢߤ",
    },
}


def characters(part: str) -> str:
    """All characters of one part, in the order of its classes."""
    return "".join(SCRIPTS[part].values())


def class_name(character: str) -> str:
    """A name for people and files: `latin capital a`, `georgian ban`."""
    return unicodedata.name(character).replace(" LETTER", "").lower()
