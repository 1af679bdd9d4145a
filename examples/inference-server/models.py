"""The models: trained once, at build time (`python models.py FOLDER`), and loaded by the workers.

FOLDER/NAME has the model and its inputs and outputs (model.json, with KServe's metadata keys). The models classify handwritten digits of 8 x 8
pixels; scikit-learn includes 1797 of them:

    scale    scikit-learn    images to pixels of mean 0 and deviation 1
    digits   ONNX Runtime    pixels to probabilities, by a small neural network
    reader   an ensemble     scale, then digits
    forest   scikit-learn    images to probabilities, by a forest of 400 trees: as accurate, and some hundred times slower
    writer   generate.py     text, one token at a time
"""
import json
import pickle
import sys
from pathlib import Path

import numpy

IMAGE = {"name": "image", "datatype": "FP32", "shape": [-1, 64]}
PIXELS = {"name": "pixels", "datatype": "FP32", "shape": [-1, 64]}
PROBABILITIES = {"name": "probabilities", "datatype": "FP32", "shape": [-1, 10]}


# --- train ----------------------------------------------------------------------------------------------------------------------------------------

def save(folder, name, platform, inputs, outputs, **more):
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    said = {"name": name, "versions": ["1"], "platform": platform, "inputs": inputs, "outputs": outputs, **more}
    (place / "model.json").write_text(json.dumps(said, indent=1))
    return place


def network(classifier):
    """Converts scikit-learn's neural network to an ONNX graph: layers of Gemm and Relu, a Softmax at the end."""
    from onnx import TensorProto, checker, helper, numpy_helper
    nodes, weights, last = [], [], "pixels"
    for i, (weight, bias) in enumerate(zip(classifier.coefs_, classifier.intercepts_)):
        weights += [numpy_helper.from_array(weight.astype("f4"), f"weight{i}"), numpy_helper.from_array(bias.astype("f4"), f"bias{i}")]
        nodes.append(helper.make_node("Gemm", [last, f"weight{i}", f"bias{i}"], [f"sum{i}"]))
        final = i == len(classifier.coefs_) - 1
        last = "probabilities" if final else f"layer{i}"
        nodes.append(helper.make_node("Softmax" if final else "Relu", [f"sum{i}"], [last]))
    graph = helper.make_graph(nodes, "digits", [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["rows", 64])],
                              [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["rows", 10])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    checker.check_model(model)
    return model.SerializeToString()


def make(folder, texts):
    from generate import Writer
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler
    images, digits = load_digits(return_X_y=True)
    images, unseen, digits, answers = train_test_split(images.astype("f4"), digits, random_state=1)
    scaler = StandardScaler().fit(images)
    classifier = MLPClassifier((64, 32), max_iter=60, early_stopping=True, random_state=1).fit(scaler.transform(images), digits)
    forest = RandomForestClassifier(400, random_state=1, n_jobs=1).fit(images, digits)
    print(f"digits: {classifier.score(scaler.transform(unseen), answers):.1%} of unseen images right, forest: {forest.score(unseen, answers):.1%}")

    place = save(folder, "scale", "sklearn", [IMAGE], [PIXELS], method="transform", batch={"rows_max": 32, "wait_ms": 1})
    (place / "model.pickle").write_bytes(pickle.dumps(scaler))
    place = save(folder, "digits", "onnxruntime_onnx", [PIXELS], [PROBABILITIES], batch={"rows_max": 32, "wait_ms": 2})
    (place / "model.onnx").write_bytes(network(classifier))
    place = save(folder, "forest", "sklearn", [IMAGE], [PROBABILITIES], method="predict_proba", batch={"rows_max": 8, "wait_ms": 10})
    (place / "model.pickle").write_bytes(pickle.dumps(forest))
    save(folder, "reader", "ensemble", [IMAGE], [PROBABILITIES], steps=["scale", "digits"])

    writer = Writer.learn(text.read_text() for text in texts)
    print(f"writer: {len(writer.words)} different words, from {len(texts)} texts")
    place = save(folder, "writer", "writer", [], [])
    (place / "model.pickle").write_bytes(pickle.dumps(writer))
    numpy.save(folder / "images.npy", unseen)  # test inputs for clients


# --- load --------------------------------------------------------------------------------------------------------------------------------------

def descriptions(folder):
    """Returns {name: content of model.json} of all models."""
    found = [json.loads(file.read_text()) for file in sorted(Path(folder).glob("*/model.json"))]
    return {said["name"]: said for said in found}


def load(folder, said):
    """Returns predict({input's name: array}) -> {output's name: array}, with one output row per input row."""
    place, (given,), (wanted,) = Path(folder) / said["name"], said["inputs"], said["outputs"]
    if said["platform"] == "sklearn":
        method = getattr(pickle.loads((place / "model.pickle").read_bytes()), said["method"])
        return lambda inputs: {wanted["name"]: method(inputs[given["name"]]).astype("f4")}
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # parallelism comes from the number of workers
    session = onnxruntime.InferenceSession(place / "model.onnx", options, providers=["CPUExecutionProvider"])
    return lambda inputs: {wanted["name"]: session.run([wanted["name"]], inputs)[0]}


if __name__ == "__main__":
    make(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
