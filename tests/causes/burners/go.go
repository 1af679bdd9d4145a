// Go: each request computes for 120 ms in a function that calls the standard library.
package main

import (
	"math/rand"
	"net/http"
	"os"
	"sort"
	"syscall"
)

const items = 20000

// Of the process: a goroutine may change its thread.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

//go:noinline
func burn_items(rounds int) int {
	values := make([]int, items)
	for round := 0; round < rounds; round++ {
		for i := range values {
			values[i] = rand.Int()
		}
		sort.Ints(values)
	}
	return values[0]
}

func main() {
	begin := cpuSeconds()
	burn_items(100)
	rounds := int(100 * 0.12 / (cpuSeconds() - begin))
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { burn_items(rounds) })
	if err := http.ListenAndServe("127.0.0.1:"+os.Args[len(os.Args)-1], nil); err != nil {
		panic(err)
	}
}
