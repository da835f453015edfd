"""Steps whose segments Inductor compiles train as they do without it."""

import shutil

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.machine import cluster
from graphwright.partition import data_parallel
from graphwright.run.processes import notices

pytestmark = [
    pytest.mark.skipif(not shutil.which("g++"), reason="Inductor needs a C++ compiler on CPUs"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch._inductor"),
]


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(72, 5)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.norm(self.conv(x))), 2, stride=1, padding=1)
        return self.out(x.flatten(1))


class Attended(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        return self.out(self.norm(self.attention(self.words(x))).mean(1))


torch.manual_seed(1)
images, words = torch.randn(6, 3, 4, 4, dtype=torch.float64), torch.randint(0, 11, (6, 4))
last = images.to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("make", "batch"),
    [(Pooled, images), (Pooled, last), (Attended, words)],
    ids=["padded pooling", "channels last", "attention and dropout"],
)
def test_compiled_steps_train_the_same(make, batch, monkeypatch, capsys):
    monkeypatch.setattr(notices, "NOTICE_SECONDS", 0.1)
    trained = []
    for torch_compile in (False, True):
        torch.manual_seed(0)
        model, loss_fn = make().double(), nn.functional.cross_entropy
        if batch is last:
            model = model.to(memory_format=torch.channels_last)
        given = batch, torch.arange(6) % 5
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        graph = gw.capture(model, loss_fn, given, optimizer=optimizer)
        plan = data_parallel(graph, cluster("local:1"))
        step = gw.compile(
            plan, model, loss_fn, optimizer, graph=graph, device="cpu", seed=3, torch_compile=torch_compile,
        )  # fmt: skip
        losses = [step(given) for _ in range(3)]
        trained.append({"losses": torch.stack(losses), **step.values()})
    for name, value in trained[0].items():
        torch.testing.assert_close(trained[1][name], value, rtol=1e-9, atol=1e-11, msg=name)
    assert capsys.readouterr().err.count("torch.compile has been at work") == 1
