// Profiled by Go's own profiler: `own_profiler PROFILE FUNCTIONS CPU_TIME`, where each l of FUNCTIONS is work of loud, each q of quiet.
package main

import (
	"math/rand"
	"os"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

var sum int

// Both sum in a register: in memory one of two equal loops may take three times as long as the other, depending on the CPU's load prediction.
//go:noinline
func loud(n int) { s := 0; for i := 0; i < n; i++ { s += i * i ^ s }; sum += s }

//go:noinline
func quiet(n int) { s := 0; for i := 0; i < n; i++ { s -= i * i ^ s }; sum -= s }

func used() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func main() {
	file, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(file)
	seconds, _ := time.ParseDuration(os.Args[3])
	for used() < seconds { // random lengths: equal ones may be in step with the ticks of Go's profiler, which then samples
                        // one function only
		loud(rand.Intn(600000) * strings.Count(os.Args[2], "l"))
		quiet(rand.Intn(600000) * strings.Count(os.Args[2], "q"))
	}
	pprof.StopCPUProfile()
	file.Close()
}
