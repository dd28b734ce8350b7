package app

// headroom is memory that is never touched, and so never taken from the machine: it counts as part of the heap, so that as
// much garbage as it is large is left to lie before any is collected. An api's own heap is a few MB: without it a collection
// comes every few requests.
const headroom = 24 << 20
