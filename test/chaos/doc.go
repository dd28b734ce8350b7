// Package chaos kills true engine processes in the middle of recoveries, over a real MariaDB.
package chaos
