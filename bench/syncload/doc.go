// Package syncload measures the encrypted sync relay: pushes with group commit
// and with a transaction each, pulls, chunks of blobs, devices that wait, and
// what all that does to the AEP relay beside it.
//
// The relay runs in a process of its own, and so does the prober of the AEP
// relay. The load is closed: so many devices, each with one request in flight, on
// connections that are kept. What is compared is measured in one run, in turns,
// and each figure is the median of the rounds.
//
// Thread rule: Run uses goroutines of its own and returns when they have ended.
package syncload
