// Package testkit starts what end-to-end tests need: databases of their own on real servers, the true binary, and processes that
// end with the test. Only tests import it.
package testkit
