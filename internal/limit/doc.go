// Package limit decides by a client's address: how many connections it may
// hold, how many events it may publish, and which address that is behind a
// proxy.
//
// It owns three small states and no I/O:
//
//   - [Addresses] counts what each address holds, against a cap.
//   - [Rate] is a token bucket for each address.
//   - [Proxies] finds the client's address in X-Forwarded-For, and believes
//     only proxies that it was told of.
//
// An IPv4 address is counted by itself, also when it comes in IPv6 clothes;
// an IPv6 address by its /64, since a host may take any address of that. A
// peer without an address (the zero netip.Addr, as on a Unix socket) is never
// limited: there is nothing to tell such peers apart by, and one bucket for
// all of them would let one of them shut the others out.
//
// Invariants:
//
//   - A1: an address has an entry in Addresses exactly while it holds
//     something, so entries <= what is held in all.
//   - A2: for no address does Addresses count more than the cap.
//   - T1: entries of Rate <= 65,536. What is forgotten first is a bucket that
//     is full again, which changes nothing, then the one that was idle for
//     the longest time.
//   - T2: in any span t an address is granted at most
//     max(burst, n) + t * rate events, n being its largest batch.
//   - X1: the client's address comes from a header only if the peer that
//     sent it, and every address to the right of it, is trusted.
//
// A limit that is off is a nil pointer: its methods allow everything.
//
// Thread rule: any goroutine. A lock is held for one look-up in a table, never
// across anything that may block, so loops may call all of it.
//
// There is no standard for X-Forwarded-For; RFC 7239 section 7.4 lists what
// must not be believed of its successor, and that holds here too.
package limit
