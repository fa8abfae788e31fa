//! Addresses by the IANA special-purpose registries: addresses that are not globally reachable are refused (D27).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range: its first address, its prefix length and its purpose.
type Range<A> = (A, u32, &'static str);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

const fn v6(a: u16, b: u16, c: u16) -> Ipv6Addr {
    Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)
}

const REFUSED_V4: &[Range<Ipv4Addr>] = &[
    (v4(0, 0, 0, 0), 8, "this network"),
    (v4(10, 0, 0, 0), 8, "private"),
    (v4(100, 64, 0, 0), 10, "shared by a carrier's customers"),
    (v4(127, 0, 0, 0), 8, "loopback"),
    // A cloud platform's virtual address of the host, which is reachable only from inside that cloud.
    (v4(168, 63, 129, 16), 32, "a cloud platform's own"),
    (v4(169, 254, 0, 0), 16, "link-local"),
    (v4(172, 16, 0, 0), 12, "private"),
    // Some of its anycast addresses are reachable, but none serves a webhook. The same holds for 2001::/23 below.
    (v4(192, 0, 0, 0), 24, "set aside for protocols"),
    (v4(192, 0, 2, 0), 24, "for documentation"),
    (v4(192, 88, 99, 0), 24, "a 6to4 relay's"),
    (v4(192, 168, 0, 0), 16, "private"),
    (v4(198, 18, 0, 0), 15, "for benchmarks"),
    (v4(198, 51, 100, 0), 24, "for documentation"),
    (v4(203, 0, 113, 0), 24, "for documentation"),
    (v4(224, 0, 0, 0), 4, "multicast"),
    (v4(255, 255, 255, 255), 32, "broadcast"),
    (v4(240, 0, 0, 0), 4, "reserved"),
];

/// Global unicast. All other addresses are refused, whether or not [`REFUSED_V6`] lists them.
const GLOBAL_V6: Range<Ipv6Addr> = (v6(0x2000, 0, 0), 3, "global unicast");

/// Ranges outside of global unicast come first, so that the refusal can name them; then the exceptions within it.
const REFUSED_V6: &[Range<Ipv6Addr>] = &[
    (Ipv6Addr::UNSPECIFIED, 128, "unspecified"),
    (Ipv6Addr::LOCALHOST, 128, "loopback"),
    (Ipv6Addr::UNSPECIFIED, 96, "IPv4-compatible"),
    (v6(0x64, 0xff9b, 0), 96, "translated to IPv4"),
    (v6(0x64, 0xff9b, 1), 48, "translated to IPv4"),
    (v6(0x100, 0, 0), 64, "discarded"),
    (v6(0x5f00, 0, 0), 16, "for segment routing"),
    (v6(0xfc00, 0, 0), 7, "unique local"),
    (v6(0xfe80, 0, 0), 10, "link-local"),
    (v6(0xfec0, 0, 0), 10, "site-local"),
    (v6(0xff00, 0, 0), 8, "multicast"),
    (v6(0x2001, 0, 0), 32, "a Teredo tunnel's"),
    (v6(0x2001, 2, 0), 48, "for benchmarks"),
    (v6(0x2001, 0, 0), 23, "set aside for protocols"),
    (v6(0x2001, 0xdb8, 0), 32, "for documentation"),
    (v6(0x2002, 0, 0), 16, "a 6to4 tunnel's"),
    (v6(0x3fff, 0, 0), 20, "for documentation"),
];

/// Why an address must not be connected to; `None` when it is globally reachable. An IPv4-mapped address is checked as the
/// IPv4 address that a connection to it reaches.
pub fn refusal(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => refusal_v4(address),
        IpAddr::V6(address) => refusal_v6(address),
    }
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    let within = |&&(first, length, _): &&Range<Ipv4Addr>| (address.to_bits() ^ first.to_bits()) >> (32 - length) == 0;
    REFUSED_V4.iter().find(within).map(|&(_, _, what)| what)
}

fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    let within = |(first, length, _): Range<Ipv6Addr>| (address.to_bits() ^ first.to_bits()) >> (128 - length) == 0;
    let named = REFUSED_V6.iter().find(|range| within(**range)).map(|&(_, _, what)| what);
    named.or_else(|| (!within(GLOBAL_V6)).then_some("not global unicast"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses that are refused, by the name of their range: its edges, and what is known in it.
    const REFUSED: &[(&str, &str)] = &[
        ("this network", "0.0.0.0 0.255.255.255 ::ffff:0.0.0.0"),
        ("private", "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 ::ffff:a00:1"),
        ("shared by a carrier's customers", "100.64.0.0 100.100.100.200 100.127.255.255"),
        ("loopback", "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1"),
        ("a cloud platform's own", "168.63.129.16"),
        ("link-local", "169.254.0.0 169.254.169.254 169.254.255.255 ::ffff:169.254.169.254 fe80::1 febf:ffff::1"),
        ("set aside for protocols", "192.0.0.0 192.0.0.192 192.0.0.255 2001:10::1 2001:20::1 2001:1ff:ffff::1"),
        (
            "for documentation",
            "192.0.2.1 198.51.100.7 203.0.113.7 2001:db8::1 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff \
             3fff::1 3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
        ),
        ("a 6to4 relay's", "192.88.99.1"),
        ("for benchmarks", "198.18.0.0 198.19.255.255 2001:2::1"),
        ("multicast", "224.0.0.0 239.255.255.255 ff02::1 ff0e::1 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("reserved", "240.0.0.0 255.255.255.254"),
        ("broadcast", "255.255.255.255"),
        ("unspecified", "::"),
        ("IPv4-compatible", "::2 ::127.0.0.1 ::8.8.8.8"),
        ("not global unicast", "::ffff:0:127.0.0.1 100:0:0:1::1 1fff:ffff::1 4000::1 8000::1 fbff::1 fe00::1"),
        (
            "translated to IPv4",
            "64:ff9b:: 64:ff9b::127.0.0.1 64:ff9b::8.8.8.8 64:ff9b:1::10.0.0.1 \
             64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
        ),
        ("discarded", "100::1"),
        ("a Teredo tunnel's", "2001:: 2001:0:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("a 6to4 tunnel's", "2002:: 2002:7f00:1::1 2002:808:808::1 2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("for segment routing", "5f00::1"),
        ("unique local", "fc00::1 fd00:ec2::254 fdff:ffff::1"),
        ("site-local", "fec0::1 feff:ffff::1"),
    ];

    const REACHABLE: &str = "1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.215.14 100.63.255.255 \
        100.128.0.0 126.255.255.255 128.0.0.0 168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 \
        172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.255 192.0.3.0 192.88.98.255 192.88.100.0 \
        192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 \
        203.0.114.0 223.255.255.255 ::ffff:8.8.8.8 2000::1 2001:200::1 2001:4860:4860::8888 2001:db7:ffff::1 \
        2001:db9::1 2003::1 2606:4700:4700::1111 2a00:1450:4001::1 3ffe:ffff::1 3fff:1000::1";

    #[test]
    fn ranges_that_are_not_globally_reachable_are_refused_by_name() {
        for (why, addresses) in REFUSED {
            for text in addresses.split(' ') {
                assert_eq!(refusal(text.parse().unwrap()), Some(*why), "{text}");
            }
        }
    }

    #[test]
    fn public_addresses_are_reachable_up_to_the_edges_of_the_refused_ranges() {
        for text in REACHABLE.split(' ') {
            assert_eq!(refusal(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn every_range_is_written_from_its_first_address() {
        for (first, length, what) in REFUSED_V4 {
            assert_eq!(first.to_bits().checked_shl(*length).unwrap_or(0), 0, "{what}");
        }
        for (first, length, what) in REFUSED_V6 {
            assert_eq!(first.to_bits().checked_shl(*length).unwrap_or(0), 0, "{what} {first}");
        }
    }
}
