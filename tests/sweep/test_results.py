"""Results that hold arrays are equal where their contents are, hash alike, and can be pickled."""

import pickle

import pytest

from qcore import admission, diffusion


def law(intensity):
    return admission.queue_distribution(5, intensity, admission.FiniteBuffer(1.5))


def path(seed):
    return diffusion.sample_path(0.5, admission.Abandonment(0.5), 1.0, seed, step=0.1)


@pytest.mark.parametrize(("make", "this", "other"), [(law, 0.9, 0.8), (path, 1, 2)])
def test_results_are_compared_by_what_they_hold(make, this, other):
    one = make(this)
    assert one == make(this)
    assert hash(one) == hash(make(this))
    assert one != make(other)
    assert pickle.loads(pickle.dumps(one)) == one
