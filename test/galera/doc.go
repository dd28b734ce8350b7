// Package galera runs salvor's true processes over a true cluster of three Galera nodes (Debian's mariadb-server and galera-4),
// and takes nodes and engines away from under it.
package galera
