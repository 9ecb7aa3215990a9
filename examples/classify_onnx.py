"""Classify images with a file that `catis export --onnx` wrote; needs onnxruntime, numpy and pillow, nothing else.

python examples/classify_onnx.py model.onnx photo.jpg ...
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image


def read_contract(path):
    """What the JSON beside the file says: input, preprocessing, labels."""
    return json.loads(Path(path).with_suffix(".json").read_text(encoding="utf-8"))


def prepare(image, preprocessing):
    """(1, 3, H, W) input of an image: resized, cropped in the middle, normalised."""
    image = image.convert("RGB")
    resample = Image.Resampling[preprocessing["interpolation"].upper()]
    height, width = preprocessing["resize"]
    if preprocessing["crop_mode"] == "center" and height == width:  # the shorter side; the longer one follows
        short, long = sorted(image.size)
        other = int(height * long / short)
        size = (height, other) if image.width <= image.height else (other, height)
    elif preprocessing["crop_mode"] == "squash":
        size = (width, height)
    else:
        raise ValueError(f"crop_mode {preprocessing['crop_mode']} to {height} x {width}: not in this example")
    image = image.resize(size, resample)
    rows, columns = preprocessing["size"]
    left, top = round((image.width - columns) / 2), round((image.height - rows) / 2)
    pixels = np.asarray(image.crop((left, top, left + columns, top + rows)), np.float32) / 255
    pixels = (pixels - np.float32(preprocessing["mean"])) / np.float32(preprocessing["std"])
    return pixels.transpose(2, 0, 1)[None]


def main():
    """Print the most likely class of each image, with its probability."""
    path, *photos = sys.argv[1:]
    contract = read_contract(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for photo in photos:
        pixels = prepare(Image.open(photo), contract["preprocessing"])
        (logits,) = session.run([contract["output"]["name"]], {contract["input"]["name"]: pixels})
        odds = np.exp(logits[0] - logits[0].max())
        best = int(odds.argmax())
        label = contract["labels"][best] if contract["labels"] else f"class {best}"
        print(f"{photo}\t{best}\t{label}\t{odds[best] / odds.sum():.3f}")


if __name__ == "__main__":
    main()
