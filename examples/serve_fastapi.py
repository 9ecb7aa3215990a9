"""Serve a file that `catis export --onnx` wrote over HTTP; needs fastapi, uvicorn, onnxruntime, numpy and pillow.

MODEL=model.onnx uvicorn serve_fastapi:app --app-dir examples
curl --data-binary @photo.jpg http://127.0.0.1:8000/classify
"""

import io
import os

import numpy as np
import onnxruntime
from classify_onnx import prepare, read_contract
from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from PIL import Image, UnidentifiedImageError

MODEL = os.environ["MODEL"]
contract = read_contract(MODEL)
session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
app = FastAPI(title=f"catis: {MODEL}")


def classify(photo: bytes) -> dict:
    """The most likely class of an image file."""
    pixels = prepare(Image.open(io.BytesIO(photo)), contract["preprocessing"])
    logits = session.run(None, {contract["input"]["name"]: pixels})[0][0]
    best, odds = int(logits.argmax()), np.exp(logits - logits.max())
    label = contract["labels"][best] if contract["labels"] else ""
    return {"class": best, "label": label, "probability": float(odds[best] / odds.sum())}


@app.post("/classify")
async def classify_photo(request: Request) -> dict:
    """The image is the body of the request."""
    try:
        return await run_in_threadpool(classify, await request.body())
    except UnidentifiedImageError as error:
        raise HTTPException(415, "the body is no image that can be read") from error
