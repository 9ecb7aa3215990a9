"""Float32 safetensors of the three real models, as `plans/real-*.toml` want them: `real_weights.py ASSETS OUT`.

ASSETS holds `load.py` and `weights/` (see `docs/results.md`); its ViT-B is int8 and is dequantised once, here.
"""

import runpy
import sys
from pathlib import Path

from safetensors.torch import save_file


def main(assets: Path, out: Path) -> None:
    loader = runpy.run_path(str(assets / "load.py"))
    out.mkdir(parents=True, exist_ok=True)
    for name in loader["PREPROCESS"]:
        tensors = {key: value.contiguous() for key, value in loader["state_dict"](name).items()}
        save_file(tensors, out / f"{name}.safetensors")
        print(f"{name}: {sum(value.numel() for value in tensors.values()) / 1e6:.1f} M numbers")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
