// Package admission shows that of many identical reports at once, through several api processes over one database, exactly one is
// admitted (invariant I7), without any sleep. ROUNDS says how often (default 20).
package admission
