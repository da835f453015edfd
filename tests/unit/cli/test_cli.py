"""The command line: its set of verbs and flags is frozen, its output is what it says."""

import json

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from graphwright import cli
from graphwright.errors import InvalidOption

RUN = CliRunner()

FLAGS = {
    "calibrate": {
        "--device", "--plan", "--cluster", "--batch-size", "--small", "--limit", "--store", "--output", "-o", "--json",
    },
    "capture": {"--batch-size", "--small", "--output", "-o", "--verify", "--text", "--json"},
    "demo": {"--model", "--workers", "--output", "-o", "--json"},
    "describe": {
        "--coverage", "--zoo", "--list", "--input", "--output", "--attr", "--parts", "--json",
    },
    "diff": {"--pick", "--batch-size", "--small", "--json"},
    "doctor": {"--cluster", "--json"},
    "explain": {
        "--pick", "--all", "--picture", "--batch-size", "--small", "--output", "-o", "--json",
    },
    "optimize": {
        "--batch-size", "--small", "--shape", "--prices", "--algorithm", "--alpha", "--budget", "--seconds", "--check", "--seed", "--output", "-o", "--json",
    },
    "gnn-train": {
        "--workers", "--epochs", "--learning-rate", "--partition", "--order", "--fanouts", "--batch-size", "--memory", "--caching", "--features", "--labels",
        "--evaluate-every", "--seed", "--checkpoint", "--checkpoint-every", "--resume", "--elastic", "--save", "--balance-plot",
        "--accuracy-plot", "--output", "-o", "--json",
    },
    "plan": {
        "--cluster", "--objective", "--algorithm", "--memory", "--margin", "--points", "--baselines", "--budget", "--seed",
        "--batch-size", "--batch-dim", "--small", "--compiled", "--price", "--output", "-o", "--plot", "--json",
    },
    "profile": {
        "--cluster", "--devices", "--algorithm", "--memory", "--margin", "--points", "--baselines", "--budget", "--seed",
        "--batch-size", "--batch-dim", "--small", "--price", "--output", "-o", "--plot", "--json",
    },
    "rules": {"--operator", "--size", "--output", "-o", "--json"},
    "run": {
        "--workers", "--plan", "--pick", "--memory", "--steps", "--batch-size", "--small", "--seed", "--check", "--checkpoint",
        "--checkpoint-every", "--resume", "--elastic", "--torch-compile", "--json", "--swap",
    },
    "serve-sim": {
        "--models", "--memory", "--cluster", "--rates", "--requests", "--seed", "--batch-size", "--small", "--output", "-o", "--json",
    },
    "simulate": {
        "--cluster", "--plan", "--pick", "--strategy", "--seed", "--batch-size", "--small", "--compiled", "--price",
        "--output", "-o", "--json",
    },
    "swap": {
        "--memory", "--cluster", "--search", "--budget", "--seed", "--batch-size", "--small", "--output", "-o", "--plot", "--json",
        "--plan", "--pick",
    },
    "zoo": {"--count", "--json"},
}  # fmt: skip


def run(*arguments: str):
    result = RUN.invoke(cli.app, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_set_of_verbs_and_flags_is_frozen():
    found = {
        name: {
            flag for parameter in command.params for flag in parameter.opts if flag.startswith("-")
        }
        for name, command in get_command(cli.app).commands.items()
    }
    assert found == FLAGS


@pytest.mark.parametrize("verb", FLAGS)
def test_every_verb_has_help_that_says_what_it_does(verb):
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert len(result.output) > 300


def test_version():
    assert run("--version").output.strip() == cli.__version__


def test_describe_shows_description_regions_and_splits():
    output = run("describe", "aten.mm").output
    for word in ("a[i, k] * b[k, j]", "concat dim 0", "sum", "linear in a", "sample"):
        assert word in output


def test_describe_gives_reasons_for_indices_without_a_split():
    assert "no split along" in run("describe", "aten._softmax").output


def test_describe_as_json_for_given_types():
    arguments = [
        "describe", "aten.mm", "--input", "float32[4, 6]", "--input", "float32[6, 8]",
        "--output", "float32[4, 8]", "--parts", "3", "--json",
    ]  # fmt: skip
    found = json.loads(run(*arguments).output)
    assert [split["index"] for split in found["splits"]] == ["i", "j", "k"]
    assert [part["range"] for part in found["splits"][1]["parts"]] == [[0, 2], [2, 5], [5, 8]]
    assert found["operations"] == 2 * 4 * 6 * 8


def test_describe_infers_the_outputs():
    mm = ["describe", "aten.mm", "--input", "float32[4, 6]", "--input", "float32[6, 8]", "--json"]
    assert json.loads(run(*mm).output)["outputs"] == ["float32[4, 8]"]
    assert run(*mm, "--output", "float32[4, 8]").output == run(*mm).output


def test_describe_completes_attributes_from_the_schema():
    arguments = ["--input", "float32[2, 3, 8, 8]", "--attr", "kernel_size=2", "--json"]
    found = json.loads(run("describe", "aten.max_pool2d_with_indices", *arguments).output)
    assert found["attrs"]["kernel_size"] == [2, 2]
    assert found["attrs"]["dilation"] == [1, 1]
    assert found["outputs"] == ["float32[2, 3, 4, 4]", "int64[2, 3, 4, 4]"]


def test_describe_takes_operators_without_tensors_and_absent_tensors():
    arange = ["describe", "aten.arange.start_step", "--attr", "start=0", "--attr", "end=4"]
    assert json.loads(run(*arange, "--json").output)["outputs"] == ["int64[4]"]
    norm = ["--input", "float32[2, 6]", "--attr", "normalized_shape=(6,)", "--attr", "eps=1e-5"]
    found = json.loads(run("describe", "aten.native_layer_norm", *norm, "--json").output)
    assert found["inputs"] == ["float32[2, 6]", None, None]


def test_list_holds_every_described_operator():
    from graphwright.describe import descriptions

    rows = json.loads(run("describe", "--list", "--json").output)
    assert [row["operator"] for row in rows] == [d.op for d in descriptions()]
    assert {"operator": "aten.relu", "lines": 1, "family": "activation"} in rows
    assert "aten.convolution" in run("describe", "--list").output


def test_coverage_counts_both_sides():
    found = json.loads(run("describe", "--coverage", "--json").output)
    assert found["core_described"] >= 170
    assert found["library_lines"] < found["pytorch_rule_lines"]
    assert all(reason != "not yet described" for reason in found["core_missing"].values())


def test_coverage_table_prints_both_line_counts():
    output = run("describe", "--coverage").output
    assert "PyTorch's hand-written sharding rules" in output.replace("\n", " ")


def test_capture_saves_verifies_and_prints(tmp_path):
    from graphwright.ir import load, parse_text

    path = tmp_path / "mlp.json"
    run("capture", "mlp", "--small", "--verify", "-o", str(path))
    text = tmp_path / "mlp.txt"
    run("capture", "mlp", "--small", "-o", str(text))
    assert load(path) == parse_text(text.read_text())


def test_capture_as_json():
    found = json.loads(run("capture", "mlp", "--small", "--json").stdout)
    assert found["nodes"] == sum(found["nodes_per_phase"].values())


def test_capture_a_model_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def make():\n"
        "    model = torch.nn.Linear(4, 2)\n"
        "    return model, torch.nn.functional.mse_loss, (torch.ones(3, 4), torch.ones(3, 2)), torch.optim.SGD\n"
    )
    output = run("capture", f"{tmp_path}/mine.py:make", "--text").output
    assert "aten.mm" in output


@pytest.mark.slow  # a minute, which test_demonstration spends on the same below the command line
def test_demo_measures_predicts_draws_trains_and_checks(tmp_path):
    picture = tmp_path / "plans.png"
    found = json.loads(run("demo", "--model", "mlp", "-o", str(picture), "--json").stdout)
    assert found["workers"] == 2
    assert found["measured"]["links"] > 0 and found["measured"]["calls"] > 0
    ways = {way["name"]: way for way in found["ways"]}
    found_way, ddp = ways["the plan found"], ways["DistributedDataParallel"]
    assert found["speedup_over_ddp"] == ddp["measured_time"] / found_way["measured_time"]
    assert found_way["predicted_time"] > 0 and ddp["predicted_time"] is None
    assert found["check"]["agrees"]
    assert found["picture"] == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_zoo_lists_parameters_operators_and_sources():
    rows = json.loads(run("zoo", "--json").stdout)
    by_name = {row["name"]: row for row in rows}
    assert by_name["vgg16"]["parameters"] == 138_357_544
    assert all(row["operators"] and row["source"] for row in rows)


def test_calibrate_measures_once_and_saves_reports(tmp_path):
    store, saved, plot = (tmp_path / name for name in ("costs.sqlite", "report.json", "plot.png"))
    arguments = ["calibrate", "mlp", "--small", "--limit", "3", "--store", str(store)]
    first = json.loads(run(*arguments, "-o", str(saved), "--json").stdout)
    assert first == json.loads(saved.read_text())
    assert first["calls"] == first["new"] == 3
    assert first["ratio"]["median"] > 0
    assert {family["family"] for family in first["families"]}
    shown = run(*arguments, "-o", str(plot)).stdout
    assert "3 distinct calls, 0 measured now" in shown.replace("\n", " ")
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_calibrate_without_a_model_measures_common_operators(tmp_path):
    store = tmp_path / "costs.sqlite"
    found = json.loads(
        run(
            "calibrate",
            "--limit",
            "1",
            "--store",
            str(store),
            "-o",
            str(tmp_path / "p.svg"),
            "--json",
        ).stdout
    )
    assert found["rows"][0]["op"] in ("aten.mm", "aten.bmm", "aten.convolution")
    assert "<svg" in (tmp_path / "p.svg").read_text()


def test_doctor_shows_the_machine_the_store_and_the_presets():
    from graphwright.machine import preset_names

    found = json.loads(run("doctor", "--json").stdout)
    assert found["machine"]["cores"] >= 1
    assert [c["name"] for c in found["clusters"]][:-1] == list(preset_names())
    assert found["store"] == {
        "path": found["store"]["path"], "num_compute": 0, "num_collective": 0, "problem": None
    }  # fmt: skip
    shown = run("doctor").output
    for word in ("cores for this process", "measured costs", "dgx-h100", "PyTorch"):
        assert word in shown


def test_doctor_shows_one_cluster_in_full():
    shown = run("doctor", "--cluster", "dgx-h100:2").output
    for word in ("16 x NVIDIA H100", "2 x node", "each way", "host memory", "source"):
        assert word in shown


def test_doctor_tells_of_a_store_that_cannot_be_used(tmp_path, monkeypatch):
    (tmp_path / "text").write_text(
        "not a database, and long enough to be taken for one by its size"
    )
    monkeypatch.setenv("GRAPHWRIGHT_COSTS", str(tmp_path / "text"))
    assert "is not a store of measured" in " ".join(run("doctor").output.split())


def test_rules_are_listed_and_drawn(tmp_path):
    from graphwright.rewrite.substitutions import shipped

    listed = json.loads(run("rules", "--operator", "matmul", "--size", "2", "--json").stdout)
    assert 0 < len(listed["rules"]) < len(shipped()) == listed["counts"]["proved"]
    number = str(listed["rules"][0]["number"])
    drawn = run("rules", number).stdout
    assert f"rule {number}" in drawn and "proved" in drawn
    assert json.loads(run("rules", number, "--json").stdout) == listed["rules"][0]
    picture = tmp_path / "rule.png"
    run("rules", number, "-o", str(picture))
    assert picture.stat().st_size > 2000
    with pytest.raises(InvalidOption, match="there is no rule 99999; rules go from 0"):
        run("rules", "99999")
    assert run("rules", "-o", str(picture)).exit_code == 2
