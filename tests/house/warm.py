"""Compile what most of qcore's public functions need, so that a first call need not.

`make install` does this after the packages are laid down; kernels and tests of this tree then
find their compiled functions. Which functions compile, the calls below decide, not a list.
"""

from derivations.claims import surroundings
from derivations.claims.rerun import compile_afresh


def main():
    """Call a function of each kernel once, with small arguments."""
    surroundings.settle()
    compile_afresh()
    from scipy import stats

    from qcore import erlang, simulate
    from qcore.deferral import dsrt, esrt, single_deferral

    for function in (erlang.erlang_b, erlang.erlang_c):
        function(3, 2.0)
        function([3.5, 30.0], 2.0)
    erlang.erlang_a(3, 2.0, 1.0)
    erlang.servers_for_blocking(10.0, 0.1)
    dsrt.blocking_probability(2, 2, 1.5, 1.0, 0.5)
    esrt.optimal_rearrival_rate(2, 2, 1.5, 1.0, 10.0)
    single_deferral.blocking_probability(2, 1.5, 1.0, 0.5)
    simulate.deferrals(2, 2, 1.5, 1.0, simulate.Esrt(1.0), customers=10_000, seed=1)
    law = stats.expon()
    simulate.many_server_queue(2, law, law, law, simulate.NonIdling(), 10_000, 1, 100)


if __name__ == "__main__":
    main()
