"""Propagation of trace contexts, by the native part of sonde.trace and by the fallback without it; the vectors come from
tests/unit/lib/trace. Prints nothing."""
from sonde import _native, _silent, trace
ids = "12345678901234567890123456789012-1234567890123456"
parent, many = f"00-{ids}-01", ",".join(f"k{number}=1" for number in range(32))
good_parents = [parent, f"00-{ids}-ff", f"cc-{ids}-01", f"cc-{ids}-01-what-comes"]
bad_parents = ["", parent + "-what-comes", f"cc-{ids}-01.what-comes", f"cc-{ids}-01what", f"ff-{ids}-01", f"0.-{ids}-01", f"000-{ids}-01", parent.replace("12345678901234567890", "0" * 20) + " ",
               f"00-{'0' * 32}-1234567890123456-01", "00-12345678901234567890123456789012-0000000000000000-01", f"00-{ids}-1", f"00-{ids}-0A", parent + "\n", " " + parent]
good_states = ["foo=1", " foo=1 \t , \t bar=2,", ",foo=1", "0foo=1", "foo@=1,foo@bar@baz=2", "a-_*/@b=x y", "foo= 1", "z" * 256 + "=1", "foo=" + "z" * 256, many, many + ","]
bad_states = ["", ",", "foo", "foo=", "foo=1,foo=2", "foo =1", "FOO=1", "@foo=1", "-a=1", "fo.o=1", "foo=1=2", "foo=b\tr", "foo=\x7f", "foo=1;b=2", "z" * 257 + "=1",
              "foo=" + "z" * 257, many + ",one=more"]
for Trace in (_native.Trace, _silent.Trace):
    for kind in (str, str.encode):
        for p in good_parents + bad_parents:
            wanted = {"traceparent": p} if p in good_parents else {}
            assert Trace(kind(p)).context() == Trace(kind(p), kind("foo")).context() == wanted, (Trace, p)
            assert Trace(kind(p), kind("foo=1")).context() == ({**wanted, "tracestate": "foo=1"} if wanted else {}), (Trace, p)
        for state in good_states + bad_states:
            wanted = {"tracestate": state} if state in good_states else {}
            assert Trace(kind(parent), tracestate=kind(state)).context() == {"traceparent": parent, **wanted}, (Trace, state)
    assert Trace().context() == Trace(None, None).context() == Trace(5, 5).context() == Trace(tracestate="foo=1").context() == {}
    assert not Trace(parent) and Trace(parent).level == Trace(parent).id == 0 and not Trace(parent).active
