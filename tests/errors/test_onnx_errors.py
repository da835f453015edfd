"""Bad ONNX files: what is said of each."""

import pytest
import torch

import graphwright as gw
from graphwright.capture import read_onnx
from graphwright.errors import GraphFileError, InvalidOption, UnsupportedModel
from onnx_files import model, node, write

FLOAT = torch.float32
X = [("x", FLOAT, ("batch", 3))]
RELU = [node("Relu", ["x"], ["y"])]


def test_an_open_dim_is_named_with_what_to_give(tmp_path):
    path = write(tmp_path / "m.onnx", RELU, X, ["y"])
    with pytest.raises(
        InvalidOption, match=r"leaves dim 0 \('batch'\) of input 'x' open.*shapes=\{'batch': 1\}"
    ):
        gw.optimize(path)
    with pytest.raises(InvalidOption, match=r"no input or dim 'bach'; there are batch, x"):
        gw.optimize(path, shapes={"bach": 2})
    with pytest.raises(InvalidOption, match=r"'x' is declared as \['batch', 3\], and \[2, 4\]"):
        gw.optimize(path, shapes={"x": (2, 4)})
    with pytest.raises(InvalidOption, match="'batch' is 0"):
        gw.optimize(path, shapes={"batch": 0})
    with pytest.raises(InvalidOption, match=r"a tensor of float32, not float64"):
        gw.optimize(path, torch.zeros(2, 3, dtype=torch.float64))
    with pytest.raises(InvalidOption, match=r"1 inputs \(x\), and 2 are given"):
        gw.optimize(path, (torch.zeros(2, 3), torch.zeros(2, 3)))


def test_shapes_are_for_files_and_modules_need_examples():
    with pytest.raises(InvalidOption, match="ONNX files"):
        gw.optimize(torch.nn.ReLU(), torch.zeros(1), shapes={"x": 1})
    with pytest.raises(InvalidOption, match="example of its inputs"):
        gw.optimize(torch.nn.ReLU())


def test_every_truncation_is_an_error_of_ours(tmp_path):
    weights = {"w": torch.rand(3, 4)}
    data = model([node("MatMul", ["x", "w"], ["y"])], [("x", FLOAT, (2, 3))], ["y"], weights)
    path = tmp_path / "m.onnx"
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(GraphFileError, match=r"m\.onnx"):
            read_onnx(path)


def test_damaged_bytes_are_an_error_of_ours_or_change_nothing_else(tmp_path):
    data = model([node("Relu", ["x"], ["y"])], [("x", FLOAT, (2, 3))], ["y"])
    path = tmp_path / "m.onnx"
    for place in range(len(data)):
        for value in (0, 0xFF):
            path.write_bytes(data[:place] + bytes([value]) + data[place + 1 :])
            try:
                read_onnx(path)
            except (GraphFileError, UnsupportedModel, InvalidOption):
                continue


def test_what_a_file_lacks(tmp_path):
    path = tmp_path / "m.onnx"
    with pytest.raises(GraphFileError, match="cannot read"):
        read_onnx(path)
    write(path, [node("Relu", ["z"], ["y"])], X, ["y"])
    with pytest.raises(GraphFileError, match="reads 'z', which nothing before it makes"):
        read_onnx(path, shapes={"batch": 1})
    write(path, RELU, X, ["q"])
    with pytest.raises(GraphFileError, match="no node makes its output 'q'"):
        read_onnx(path, shapes={"batch": 1})


def test_nodes_that_do_not_fit_are_named(tmp_path):
    nodes = [node("MatMul", ["x", "x"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, X, ["y"])
    with pytest.raises(UnsupportedModel, match=r"MatMul 'of y' does not fit .*float32\[2, 3\]"):
        read_onnx(path, shapes={"batch": 2})
    nodes = [node("Reshape", ["x", "s"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, [*X, ("s", torch.int64, (2,))], ["y"])
    with pytest.raises(UnsupportedModel, match="'s', depends on values"):
        read_onnx(path, shapes={"batch": 2})
    path = write(tmp_path / "m.onnx", [node("RandomNormalLike", ["x"], ["y"])], X, ["y"])
    with pytest.raises(UnsupportedModel, match="draws at random"):
        read_onnx(path, shapes={"batch": 2})
    path = write(tmp_path / "m.onnx", [node("NonZero", ["x"], ["y"])], X, ["y"])
    with pytest.raises(UnsupportedModel, match="depends on values"):
        read_onnx(path, shapes={"batch": 2})
    path = write(tmp_path / "m.onnx", [node("Nothing", ["x"], ["y"], "nowhere")], X, ["y"])
    with pytest.raises(UnsupportedModel, match=r"nowhere\.Nothing .*onnxruntime"):
        read_onnx(path, shapes={"batch": 2})


def test_old_files_say_how_to_convert(tmp_path):
    path = write(tmp_path / "m.onnx", RELU, X, ["y"], opset=6)
    with pytest.raises(UnsupportedModel, match="version_converter"):
        read_onnx(path)


def test_weights_outside_of_the_folder_are_not_read(tmp_path):
    from graphwright.capture.onnx.wire import encoded
    from onnx_files import declared, graph

    for location in ("../secret", "/etc/hostname", "missing"):
        outside = encoded(13, encoded(1, "location") + encoded(2, location))
        stored = encoded(1, 2) + encoded(2, 1) + encoded(8, "w") + outside + encoded(14, 1)
        inner = graph(
            [node("Add", ["x", "w"], ["y"])], [declared("x", FLOAT, (2,))], [encoded(1, "y")]
        )
        path = tmp_path / "m.onnx"
        path.write_bytes(encoded(8, encoded(2, 17)) + encoded(7, inner + encoded(5, stored)))
        wanted = "cannot be read" if location == "missing" else "outside of the model's folder"
        with pytest.raises(GraphFileError, match=wanted):
            read_onnx(path)
