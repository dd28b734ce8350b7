// Package keystone finds out from Keystone who a token belongs to, as keystonemiddleware does for Masakari (contract
// 4.1): with a cache, with one call however many requests bring the same token at once, and with a clear difference
// between "this token is not valid" and "Keystone cannot be asked now".
package keystone
