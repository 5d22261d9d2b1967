"""`Softmax`: multinomial logistic regression in plain NumPy, a learner that needs no torch."""

from collections.abc import Sequence

import numpy as np

from paceline.learn.learner import Gradient, TensorSpan
from paceline.learn.samples import Rows, Samples, Vector


class Softmax:
    """One linear layer; its weights begin at 0, so that seeds differ by the order of samples."""

    stages = 1

    def __init__(self, train: Samples, test: Samples) -> None:
        self._train = train.inputs.reshape(len(train), -1), train.labels
        self._test = test.inputs.reshape(len(test), -1), test.labels
        classes, features = train.classes, self._train[0].shape[1]
        weight = TensorSpan("weight", 0, (classes, features))
        self.layers: Sequence[TensorSpan] = (
            weight,
            TensorSpan("bias", weight.size, (classes,)),
        )
        self.size = self.trained = weight.size + classes

    def start(self, seed: int) -> Vector:
        return np.zeros(self.size, np.float32)

    def gradient(self, weights: Vector, rows: Rows, stage: int | None = None) -> Gradient:
        inputs, labels = self._of(rows)
        scores = self._scores(weights, inputs)
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores)
        shares /= shares.sum(axis=1, keepdims=True)
        at = np.arange(len(rows))
        loss = float(-np.log(shares[at, labels] + 1e-12).mean())
        shares[at, labels] -= 1
        shares /= np.float32(len(rows))
        values = np.concatenate([(shares.T @ inputs).ravel(), shares.sum(axis=0)])
        return Gradient(values.astype(np.float32), loss)

    def right(self, weights: Vector, rows: Rows | None = None, stage: int | None = None) -> float:
        inputs, labels = self._test if rows is None else self._of(rows)
        return float((self._scores(weights, inputs).argmax(axis=1) == labels).mean())

    def _of(self, rows: Rows) -> tuple[Vector, Rows]:
        inputs, labels = self._train
        return inputs[rows], labels[rows]

    def arithmetic(self, stage: int | None = None) -> float:
        return 1.0

    def _scores(self, weights: Vector, inputs: Vector) -> Vector:
        weight, bias = self.layers
        scores: Vector = (
            inputs @ weights[weight.place].reshape(weight.shape).T + weights[bias.place]
        )
        return scores
