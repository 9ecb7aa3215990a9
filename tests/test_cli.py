"""The command line: what it prints and writes, and how it fails."""

import os
import re
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest
import timm
import transformers
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

import catis
from catis.cli import COMMANDS, app, report_unexpected
from catis.cli.arguments import parse_options
from catis.core.schedule import Schedule
from catis.models import build_model, load_model
from catis.zoo import list_models

ZOO = list_models()[0]


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "200"})


@pytest.fixture
def photo(tmp_path):
    file = tmp_path / "photo.png"
    pixels = np.random.default_rng(0).integers(0, 256, (120, 150, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file)
    return file


# show


def test_show_writes_the_figure_and_prints_the_table(photo, tmp_path):
    out = tmp_path / "out.png"
    result = run("show", photo, photo, "--model", ZOO, "-r", 11, "--option", "l_start=0", "--out", out)
    assert result.exit_code == 0, result.output
    assert "largest group" in result.output
    assert "144" in result.output
    assert "133" in result.output
    assert re.findall(r"photo\.png: [a-z ]+ before", result.output)
    side, columns, rows = 3 * 96, 1 + 4, 4
    with Image.open(out) as figure:
        assert figure.format == "PNG"
        assert figure.size == (columns * (side + 10) + 10, 2 * (26 + rows * (side + 30) + 10) + 36)
    assert sorted(os.listdir(tmp_path)) == ["out.png", "photo.png"]


def test_show_draws_the_blocks_and_the_style_asked_for(photo, tmp_path):
    out, arguments = tmp_path / "out.png", ["--model", ZOO, "--after", "2,6", "--no-heat-maps"]
    sizes, pictures = set(), set()
    for style in ("white", "dim"):
        assert run("show", photo, *arguments, "--evicted", style, "--out", out).exit_code == 0
        with Image.open(out) as figure:
            sizes.add(figure.size)
            pictures.add(figure.tobytes())
    assert sizes == {(3 * (288 + 10) + 10, 26 + 288 + 30 + 10 + 36)}
    assert len(pictures) == 2


def test_show_puts_a_folder_on_one_sheet_and_names_what_it_left_out(photo, tmp_path):
    folder, out = tmp_path / "photos", tmp_path / "sheet.gif"
    folder.mkdir()
    for number in range(5):
        shutil.copy(photo, folder / f"{number}.png")
    (folder / "broken.png").write_text("no image")
    result = run("show", folder, "--model", ZOO, "-n", 6, "--after", "2,6", "--out", out)
    assert result.exit_code == 0, result.output
    assert "broken.png: UnidentifiedImageError" in result.output
    assert ", 5 image(s)" in result.output
    with Image.open(out) as sheet:
        assert (sheet.format, sheet.n_frames) == ("GIF", 2)
    assert run("show", folder, "--model", ZOO, "-n", 2, "--out", tmp_path / "sheet.svg").exit_code == 0
    assert (tmp_path / "sheet.svg").read_text().count("<image") == 2 * 2 + 3


def test_show_of_a_folder_without_images_is_one_line(tmp_path):
    (tmp_path / "empty").mkdir()
    result = run("show", tmp_path / "empty", "--model", ZOO, "--out", tmp_path / "out.png")
    assert result.exit_code == 2
    assert "no images in" in result.output


def test_show_takes_a_checkpoint(photo, tmp_path):
    weights = tmp_path / "weights.safetensors"
    save_file(timm.create_model("test_vit").state_dict(), weights)
    out = tmp_path / "out.png"
    result = run(
        "show", photo, "--model", "test_vit", "--checkpoint", weights, "--method", "tome", "-r", 5, "--out", out
    )
    assert result.exit_code == 0, result.output
    assert "random weights" not in result.output
    assert out.is_file()


def test_show_names_the_classes_of_a_transformers_folder(photo, tmp_path):
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, image_size=32, patch_size=8,
        id2label={0: "cup", 1: "boat"},
    )  # fmt: skip
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "mine")
    result = run("show", photo, "--model", tmp_path / "mine", "-r", 3, "--out", tmp_path / "out.png")
    assert result.exit_code == 0, result.output
    assert re.search(r"photo\.png: (cup|boat) before", result.output)
    assert "random weights" not in result.output


def test_show_says_when_weights_are_random(photo, tmp_path):
    result = run("show", photo, "--model", "test_vit", "--no-pretrained", "-r", 5, "--out", tmp_path / "out.png")
    assert result.exit_code == 0, result.output
    assert "test_vit has random weights; add --checkpoint FILE or --pretrained" in result.output


BAD = [
    (["--model", "tiny-7"], "model 'tiny-7' is neither in timm nor in the zoo. Close to it: tiny-"),
    (["--model", "vit_tiny_patch16_225"], "Close to it: vit_tiny_patch16_224"),
    (["--model", "test_vit.no_such_tag"], "timm cannot build 'test_vit.no_such_tag'"),
    (["--model", "resnet18"], "no Vision Transformer found in ResNet"),
    (["--model", "test_vit", "-r", "-3"], "-r -3: -3 is negative"),
    (["--model", "test_vit", "-r", "many"], "-r many: expected a number (13)"),
    (["--model", "test_vit", "--after", "3,x"], "--after 3,x: expected numbers of blocks, counted from 1"),
    (["--model", "test_vit", "--after", "0"], "--after 0: expected numbers of blocks, counted from 1"),
    (["--model", "test_vit", "-r", "1,2"], "2 entries for"),
    (["--model", "test_vit", "--method", "topk"], "method='topk': expected one of catis"),
    (["--model", "test_vit", "--option", "tau"], "--option tau: expected NAME=VALUE"),
    (["--model", "test_vit", "--option", "taw=1"], "catis has no option 'taw'"),
    (["--model", "test_vit", "--option", "tau=1", "--option", "tau=2"], "--option tau was given twice"),
    (["--model", "test_vit", "--option", "tau=high"], "tau='high': expected a number"),
    (["--model", "test_vit", "--checkpoint", "weights.ckpt"], "expected a .safetensors file"),
    (["--model", "test_vit", "--checkpoint", "none.safetensors"], "no such file"),
    (["--model", "test_vit", "--checkpoint", "a.safetensors", "--pretrained"], "from one place only"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(case[0]) for case in BAD])
def test_bad_input_is_one_line_and_code_2(photo, tmp_path, arguments, message):
    weights = [] if "--pretrained" in arguments or "--checkpoint" in arguments else ["--no-pretrained"]
    result = run("show", photo, "--out", tmp_path / "out.png", *arguments, *weights)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == ["photo.png"]


def test_a_checkpoint_of_another_model_is_refused(photo, tmp_path):
    save_file({"head.weight": timm.create_model("test_vit").head.weight.detach()}, tmp_path / "other.safetensors")
    (tmp_path / "noise.safetensors").write_bytes(b"not a safetensors file")
    for name, message in (("other", "does not fit test_vit"), ("noise", "is not a safetensors file")):
        result = run("show", photo, "--model", "test_vit", "--checkpoint", tmp_path / f"{name}.safetensors")
        assert result.exit_code == 2
        assert message in result.stderr


@pytest.mark.parametrize("content", [None, b"", b"GIF89a but not really"])
def test_unreadable_images(tmp_path, content):
    file = tmp_path / "bad.png"
    if content is not None:
        file.write_bytes(content)
    result = run("show", file, "--model", ZOO, "--out", tmp_path / "out.png")
    assert result.exit_code == 2
    assert f"cannot read image {file}" in result.stderr
    assert not (tmp_path / "out.png").exists()


def test_unwritable_outputs(photo, tmp_path):
    (tmp_path / "folder.png").mkdir()
    for out, message in (
        (tmp_path / "no" / "out.png", "there is no folder"),
        (tmp_path / "folder.png", "it is a folder"),
        (tmp_path / "out.jpg", "ends in .png"),
    ):
        result = run("show", photo, "--model", ZOO, "--out", out)
        assert result.exit_code == 2
        assert message in result.stderr
    assert sorted(os.listdir(tmp_path)) == ["folder.png", "photo.png"]


def test_a_failed_write_leaves_the_old_file(photo, tmp_path, monkeypatch):
    out = tmp_path / "out.png"
    out.write_bytes(b"old")

    def fail(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", fail)
    result = run("show", photo, "--model", ZOO, "--out", out)
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert out.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["out.png", "photo.png"]


def test_debug_shows_where_it_came_from(photo):
    result = run("--debug", "show", photo, "--model", "tiny-7")
    assert isinstance(result.exception, ValueError)


# gmacs and methods


def test_gmacs_prints_the_paper_column():
    result = run("gmacs", "vit_large_patch16_224", "-r", 11)
    assert result.exit_code == 0, result.output
    assert "vanilla        61.55 GMACs" in result.output
    assert "reduced        22.73 GMACs" in result.output
    assert result.output.split()[-24:][0] == "185"
    assert result.output.split()[-1] == "1"


def test_gmacs_token_counts_of_the_spec():
    result = run("gmacs", "deit3_base_patch16_224", "-r", 23, "--method", "tome")
    assert "after each block: 173 150 127 104 81 58 35 18 9 5 3 2" in result.output


def test_gmacs_of_seven_billion_parameters_needs_no_memory():
    result = run("gmacs", "vit_7b_patch16_dinov3", "-r", 4, "--img-size", 224)
    assert result.exit_code == 0, result.output
    assert "196 patches + 5 prefix tokens" in result.output


def test_gmacs_takes_all_spellings_and_zoo_models():
    for spelling in ("0.1", "8:-1", ",".join(["3"] * 12)):
        assert run("gmacs", "vit_tiny_patch16_224", "-r", spelling).exit_code == 0
    assert run("gmacs", ZOO, "-r", 5).exit_code == 0
    result = run("gmacs", ZOO, "-r", 5, "--img-size", 64)
    assert (result.exit_code, "fixed shape" in result.stderr) == (2, True)


def test_methods_lists_options_with_defaults():
    result = run("methods")
    assert result.exit_code == 0
    for name in catis.list_methods():
        assert name in result.output
    assert "evict_ratio=0.5" in result.output
    assert f"catis {catis.__version__}" in result.output


# the rest


def test_usage_errors_and_version():
    assert run("show").exit_code == 2
    assert run("nonsense").exit_code == 2
    assert run("--version").output == f"catis {catis.__version__}\n"


def test_help_imports_nothing_heavy():
    """`--help` of every command, and a refused argument, come without torch, timm, NumPy or the like."""
    names = [command.__name__.removesuffix("_command") for command in COMMANDS]
    refused = [["gmacs", "tiny-12", "-r", "many"], ["sweep", "none.toml"], ["results", "nowhere"], ["export", "tiny-6"]]
    refused += [
        ["show", "a.png", "--model", "tiny-6", "-o", "a.jpg"],
        ["diagnose", "tiny-6", "--data", ".", "-o", "no/x"],
    ]
    calls = [["--help"], *([name, "--help"] for name in names), *refused]
    code = "import sys; from catis.cli import app\n"
    code += f"for call in {calls!r}:\n    try: app(call)\n"
    code += "    except SystemExit as end: assert bool(end.code) == ('--help' not in call), call\n"
    code += "assert not {'torch', 'timm', 'numpy', 'scipy', 'transformers', 'ray'} & set(sys.modules), sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for name in names:
        assert name in done.stdout


@pytest.mark.parametrize("name", ["eval", "diagnose", "sweep", "bench", "results", "export"])
def test_help_takes_less_than_a_second(name):
    """Of processor time, the least of three: the first may find nothing compiled, and neighbours share the caches."""

    def spent():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    took = []
    for _ in range(3):
        before = spent()
        subprocess.run([sys.executable, "-m", "catis", name, "--help"], capture_output=True, check=True, timeout=120)
        took.append(spent() - before)
    assert min(took) < 1.0


def test_options_stand_in_groups_and_paragraphs_fill_the_line():
    for name, groups in {"eval": 5, "diagnose": 4, "bench": 4, "show": 3, "sweep": 3}.items():
        titles = set(re.findall(r"─ (\w+) ─", run(name, "--help").output)) - {"Arguments", "Options"}
        assert (len(titles), titles <= {"Reduction", "Model", "Images", "Computing", "Results", "Picture"}) == (
            groups,
            True,
        )
    lines = [line.rstrip() for line in run("demo", "--help").output.splitlines()]
    assert min(len(line) for line in lines if line.startswith((" Five methods", " are made on the spot"))) > 180


def test_the_unexpected_is_two_lines_unless_asked(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["catis", "eval", "my model"])
    report_unexpected(KeyError, KeyError("foo"), None)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "error: `catis eval 'my model'` ended in something unexpected: KeyError: 'foo'"
    assert "report it" in second
    assert "CATIS_TRACEBACK=1" in second
    monkeypatch.setenv("CATIS_TRACEBACK", "1")
    report_unexpected(KeyError, KeyError("foo"), None)
    assert "KeyError: 'foo'" in capsys.readouterr().err


def test_running_out_of_memory_is_a_sentence(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")

    monkeypatch.setattr("catis.macs.compare_macs", fail)
    result = run("gmacs", ZOO, "-r", 3)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith("error: out of memory")


def test_python_dash_m():
    done = subprocess.run([sys.executable, "-m", "catis", "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"catis {catis.__version__}\n"


def test_spellings():
    assert Schedule.from_text("8:-0.5") == Schedule(8, -0.5)
    assert parse_options(["blocks=(1, 2)", "reference=True", "late=mean"]) == {
        "blocks": (1, 2), "reference": True, "late": "mean",
    }  # fmt: skip
    assert parse_options(None) == {}


def test_models_by_name():
    assert all(parameter.is_meta for parameter in build_model("vit_base_patch16_224", device="meta").parameters())
    assert not load_model("test_vit").training
    assert load_model("test_vit", img_size=96).patch_embed.img_size == (96, 96)
