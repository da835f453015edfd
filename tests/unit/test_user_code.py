"""Of a traceback, the lines that are shown are the user's."""

import contextlib
import sysconfig
from pathlib import Path

import pytest
import torch

import graphwright
from graphwright.user_code import is_users

OURS, TORCH = (Path(package.__file__).parent for package in (graphwright, torch))
PYTHON = Path(sysconfig.get_path("stdlib"))


@pytest.mark.parametrize(
    "file",
    [
        __file__,
        "train.py",
        "/home/me/graphwright/train.py",
        "/home/me/torchvision/models/resnet.py",
        f"{TORCH}vision/models/resnet.py",
        f"{OURS}_models/mine.py",
        str(OURS / "zoo" / "lenet.py"),
        str(PYTHON / "site-packages" / "timm" / "models" / "vit.py"),
        str(PYTHON / "dist-packages" / "timm" / "models" / "vit.py"),
        "/tmp/ipykernel_7/123.py",
        "<stdin>",
        "<python-input-3>",
        "<ipython-input-3-ab>",
    ],
)
def test_the_users(file):
    assert is_users(file)


@pytest.mark.parametrize(
    "file",
    [
        str(OURS / "run" / "step.py"),
        str(OURS / "zoo.py"),
        torch.nn.modules.linear.__file__,
        contextlib.__file__,
        str(PYTHON / "multiprocessing" / "process.py"),
        "<string>",
        "<frozen runpy>",
        "<eval_with_key>.3",
    ],
)
def test_not_the_users(file):
    assert not is_users(file)
