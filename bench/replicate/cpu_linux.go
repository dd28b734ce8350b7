package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// cpu is what a process has computed so far, with the children that it has waited for: user and system time. 0: nobody knows.
func cpu(pid int) time.Duration {
	const tick = time.Second / 100 // USER_HZ
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name
	fields := strings.Fields(rest)
	var all time.Duration
	for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime (proc(5))
		if i >= len(fields) {
			return 0
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0
		}
		all += time.Duration(n) * tick
	}
	return all
}
