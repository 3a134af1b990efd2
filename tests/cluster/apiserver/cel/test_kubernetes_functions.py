"""The function libraries of Kubernetes: the examples that its documentation gives, and the edges around them."""

import pytest

from kohort.cluster.apiserver.cel import CelError, kubernetes_environment
from kohort.cluster.apiserver.cel.environment import mutation_environment

TRUE = r"""
# lists
[1, 2, 3].isSorted()
['a', 'b', 'b', 'c'].isSorted()
![2.0, 1.0].isSorted()
[1].isSorted()
[1, 3].sum() == 4
[1.0, 3.0].sum() == 4.0
[duration('1m'), duration('1s')].sum() == duration('1m1s')
[1, 3].min() == 1
[1, 3].max() == 3
[1, 2, 2, 3].indexOf(2) == 1
['a', 'b', 'b', 'c'].lastIndexOf('b') == 2
[1.0].indexOf(1.1) == -1
[1, 2, 3, 4].slice(1, 3) == [2, 3]
[[1], [2, 3]].flatten() == [1, 2, 3]
[3, 1, 2].sort() == [1, 2, 3]
['bb', 'a', 'ccc'].sortBy(w, w.size()) == ['a', 'bb', 'ccc']
[1, 1, 2].distinct() == [1, 2]
lists.range(3) == [0, 1, 2]
[1, 2].reverse() == [2, 1]
[1, 2].first().value() == 1
[1, 2].last().value() == 2
!([] + [1]).filter(x, x > 1).first().hasValue()
# regular expressions
'abc 123'.find('[0-9]+') == '123'
'abc 123'.find('xyz') == ''
'123 abc 456'.findAll('[0-9]+') == ['123', '456']
'123 abc 456'.findAll('[0-9]+', 1) == ['123']
'123 abc 456'.findAll('xyz') == []
'aaa'.findAll('a*') == ['aaa']
# urls
isURL('https://user:pass@example.com:80/path?query=val#fragment')
isURL('/absolute-path')
!isURL('https://a:b:c/')
!isURL('../relative-path')
!isURL('::')
!isURL('')
isURL('mailto:someone@example.com')
!isURL('http://exa mple.com/')
url('/path').getScheme() == ''
url('HTTPS://example.com/').getScheme() == 'https'
url('https://example.com:80/').getHost() == 'example.com:80'
url('https://[::1]:80/').getHost() == '[::1]:80'
url('/path').getHost() == ''
url('https://example.com:80/').getHostname() == 'example.com'
url('https://[::1]:80/').getHostname() == '::1'
url('https://example.com:80/').getPort() == '80'
url('https://example.com/').getPort() == ''
url('https://example.com/path').getEscapedPath() == '/path'
url('https://example.com/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'
url('https://example.com').getEscapedPath() == ''
url('https://example.com/path?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}
url('https://example.com/path?a key=a value').getQuery() == {'a key': ['a value']}
url('https://example.com/path?').getQuery() == {}
# addresses and networks
isIP('127.0.0.1')
isIP('::1')
!isIP('127.0.0.256')
!isIP(':::1')
!isIP('fe80::1%eth0')
!isIP('::ffff:1.2.3.4')
!isIP('01.2.3.4')
ip.isCanonical('2001:db8::abcd')
!ip.isCanonical('2001:DB8::ABCD')
ip('127.0.0.1').family() == 4
ip('::1').family() == 6
ip('0.0.0.0').isUnspecified()
ip('127.0.0.1').isLoopback()
ip('224.0.0.1').isLinkLocalMulticast()
!ip('224.0.1.1').isLinkLocalMulticast()
ip('ff02::1').isLinkLocalMulticast()
ip('169.254.169.254').isLinkLocalUnicast()
ip('fe80::1').isLinkLocalUnicast()
ip('192.168.0.1').isGlobalUnicast()
!ip('255.255.255.255').isGlobalUnicast()
ip('2001:db8::abcd').isGlobalUnicast()
!ip('ff00::1').isGlobalUnicast()
string(ip('192.168.0.1')) == '192.168.0.1'
isCIDR('192.168.0.0/16')
!isCIDR('192.168.0.0/')
cidr('192.168.0.0/24').containsIP(ip('192.168.0.1'))
!cidr('192.168.0.0/24').containsIP('192.168.1.1')
cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24')
!cidr('192.168.1.0/24').containsCIDR(cidr('192.168.2.0/24'))
cidr('192.168.0.1/24').ip() == ip('192.168.0.1')
cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')
cidr('192.168.0.1/24') != cidr('192.168.0.1/24').masked()
cidr('::1/128').prefixLength() == 128
# quantities
quantity('1.5G').isGreaterThan(quantity('1G'))
isQuantity('1.3Gi')
!isQuantity('1,3G')
!isQuantity('200K')
quantity('50000000G').isInteger()
quantity('50k').asInteger() == 50000
quantity('50k').sub(20000).asApproximateFloat() == 30000.0
quantity('50k').add(quantity('20k')) == quantity('70k')
quantity('50k').add(20) == quantity('50020')
quantity('50k').add(20).sub(quantity('100k')).sub(-50000) == quantity('20')
quantity('200M').compareTo(quantity('0.2G')) == 0
quantity('50M').compareTo(quantity('50Mi')) == -1
sign(quantity('-1')) == -1
# versions
semver('1.2.3').compareTo(semver('1.2.3')) == 0
semver('1.2.3').isLessThan(semver('2.0.0'))
semver('1.0.0-alpha.1').isLessThan(semver('1.0.0-alpha.beta'))
semver('1.0.0-rc').isLessThan(semver('1.0.0'))
semver('1.2.3').minor() == 2
isSemver('0.1.0-alpha.1')
!isSemver('v1.0')
isSemver('v1.0', true)
semver('01.01.01', true) == semver('1.1.1')
# formats
!format.dns1123Label().validate('my-label-name').hasValue()
format.dns1123Label().validate('Not_A_Label').hasValue()
format.named('dns1035Label').hasValue()
!format.named('nope').hasValue()
!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()
!format.byte().validate('aGVsbG8=').hasValue()
format.date().validate('2021-13-01').hasValue()
!format.datetime().validate('2021-01-01T00:00:00Z').hasValue()
# sets
sets.contains([1, 2], [2])
!sets.contains([1], [2])
sets.equivalent([1, 2, 1], [2, 1])
sets.intersects([1, 2], [2, 3])
# two-variable comprehensions
[10, 11].all(i, v, v == 10 + i)
['a', 'b'].exists(i, v, i == 1 && v == 'b')
{'x': 1, 'y': 2}.existsOne(k, v, v == 2)
[1, 2, 3].transformList(i, v, i > 0, v * 10) == [20, 30]
{'a': 1, 'b': 2}.transformMap(k, v, v + 1) == {'a': 2, 'b': 3}
{'a': 'x'}.transformMapEntry(k, v, {v: k}) == {'x': 'a'}
# formatting and patches
'%s-%d %.1f %t'.size() > 0
'%s-%d'.format(['a', 1]) == 'a-1'
'%s'.format([{'k': true}]) == '{"k":true}'
'hello'.indexOf('l', 9) == -1
jsonpatch.escapeKey('k8s.io/my~label') == 'k8s.io~1my~0label'
"""

FAIL = r"""
[1].filter(x, x > 1).min()
ip('127.0.0.256')
cidr('1.2.3.4/99')
quantity('Three')
quantity('9999999999999999999999999999999999999G').asInteger()
semver('Mi')
url('../relative-path')
'a'.substring(2)
[1].slice(0, 2)
lists.range(1)[5]
['a'].transformMapEntry(i, v, {v: i})['b']
"""


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("# ")]


@pytest.mark.parametrize("source", _lines(TRUE))
def test_holds(source: str) -> None:
    assert mutation_environment().compile(source)() is True


@pytest.mark.parametrize("source", _lines(FAIL))
def test_has_no_value(source: str) -> None:
    program = kubernetes_environment().compile(source)
    with pytest.raises(CelError):
        program()


def test_a_failed_format_says_what_is_wrong() -> None:
    problems = kubernetes_environment().compile("format.dns1123Label().validate('-').value()")()
    assert len(problems) == 1
    assert "lowercase RFC 1123 label" in problems[0]
