"""The list of models that catis takes and refuses, from the code: `python docs/listing.py docs/models.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from catis.hosts.hf_families import FAMILIES
from catis.hosts.hf_family import Family
from catis.hosts.lookup import REFUSED

BEGIN = "<!-- list: written by `python docs/listing.py docs/models.md`, do not edit -->"
END = "<!-- end of list -->"
TIMM = (
    (
        "ViT, DeiT, DeiT-III, DINOv2, CLIP, SigLIP, FlexiViT, hybrids",
        "VisionTransformer",
        "also inside `features_only`",
    ),
    ("distilled DeiT", "VisionTransformerDistilled", ""),
    ("EVA-02, DINOv3, PE, `vit_*_rope_*`", "Eva", "rotary: a merged token keeps its destination's position"),
)
"""(families, class, note) of what timm_handle.py takes."""
_PREFIX = ("none", "CLS", "CLS, distillation")
"""By how many prefix tokens every model of a family has."""


def listing() -> str:
    """Tables of what is supported and what is refused, as Markdown. Needs transformers."""
    rows = ["| library | family | class | prefix kept | note |", "|---|---|---|---|---|"]
    rows += [f"| timm | {family} | `{name}` | as the model has | {note} |" for family, name, note in TIMM]
    for family in FAMILIES:
        notes = []
        if family.packed:
            notes.append("images of any size in one call")
        if family.backbone:
            notes.append("maps of several blocks")
        if family.windowed is not Family.__dataclass_fields__["windowed"].default:
            notes.append("blocks that attend in windows remove nothing")
        prefix = _PREFIX[family.prefix] + (", registers" if family.registers else "")
        name = family.stem + family.model
        rows.append(f"| transformers | {family.title} | `{name}` | {prefix} | {'; '.join(notes)} |")
    rows += ["", "Refused by name:", "", "| library | class | why |", "|---|---|---|"]
    rows += [f"| {lib} | `{name}` | {why} |" for lib, names in REFUSED.items() for name, why in names.items()]
    return "\n".join(rows)


def write_listing(path: Path) -> None:
    """Replace what lies between the two marks of a page."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{listing()}\n\n{END}{after}")


if __name__ == "__main__":
    write_listing(Path(sys.argv[1]))
