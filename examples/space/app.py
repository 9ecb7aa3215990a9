"""The page of `catis app` as a Hugging Face Space; see README.md beside it."""

import os
import threading
from collections.abc import Callable

from catis.app.choices import Named, load_choices
from catis.app.serving import Address, served
from catis.models import is_zoo_model

MODELS = "deit_tiny_patch16_224.fb_in1k,deit_small_patch16_224.fb_in1k,tiny-12"


def main(wait: Callable[[str], object] = lambda url: threading.Event().wait()) -> None:
    """Serve the models that $CATIS_MODELS names; timm's weights come from the hub, once, when the Space starts."""
    names = os.environ.get("CATIS_MODELS", MODELS).split(",")
    choices = load_choices([Named(name, pretrained=not is_zoo_model(name)) for name in names])
    host, port = os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0"), int(os.environ.get("GRADIO_SERVER_PORT", "7860"))
    with served(choices, Address(host, port)) as url:
        wait(url)


if __name__ == "__main__":
    main()
