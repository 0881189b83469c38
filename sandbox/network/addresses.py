# SPDX-License-Identifier: Apache-2.0
"""Which addresses a gateway connects to. Pure.

A name is a person's word, the address that it resolves to is not: whoever answers for the name
could give the address of a service on this host or in its network. INVARIANT (P4, addresses): what
is checked here is what is connected to, as a number, so that no second answer counts.
"""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NEVER = tuple(
    ipaddress.ip_network(one)
    for one in (
        "0.0.0.0/8",  # this host
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local: the metadata service of clouds
        "100.100.100.200/32",  # another one's
        "192.0.0.192/32",  # another one's
        "224.0.0.0/4",
        "240.0.0.0/4",  # with the broadcast address
        "::/96",  # unspecified, loopback, IPv4 in an old form
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",
        "100::/64",
        "2001::/32",  # Teredo: IPv4 inside
        "2002::/16",  # 6to4: IPv4 inside
        "64:ff9b:1::/48",  # a network's own translation
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
        "fd00:ec2::254/128",  # metadata, and its kin
        "fd20:ce::254/128",
    )
)
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""IPv4 as an IPv6-only network spells it: judged as the address that it stands for."""


def refusal(text: str, *, private: bool) -> str:
    """Return why a gateway does not connect to a resolved address; empty where it may.

    `private`: a person said that the name leads into a network of theirs.
    """
    try:
        address: Address = ipaddress.ip_address(text)
    except ValueError:  # with a zone, or in an odd notation
        return "it is no plain address"
    if address.version == 6 and address in _TRANSLATED:
        address = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if any(address in one for one in _NEVER if one.version == address.version):
        return "it is an address of this host, of its own link or of a metadata service"
    if not address.is_global and not private:
        return "it lies in a private network"
    return ""
