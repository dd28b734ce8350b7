// Package differential asks Debian's real Masakari API and salvor's the same, request by request, and compares what they answer: the
// whole surface in seeded random sequences, over MariaDB. What may differ is the table in allowed_test.go, and nothing else.
//
//	go test ./test/differential                     the seeds of CI
//	SEEDS=200 go test ./test/differential           as many, from 1
//	SEED=17 go test -v ./test/differential          one, with every exchange
package differential
