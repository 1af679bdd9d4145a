// Goroutine labels, as runtime/pprof sets them: over equal stacks, inherited, nested, none, more and longer ones than
// Sonde keeps. Work and waits. `labelled [PROFILE]` works until it is interrupted, and writes Go's own profile of that.
// With WORKLOAD_FIRE=N in the environment it waits for SIGUSR1, does one round, and exits: its work is N calls of
// getppid().
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
)

var sink [64]uint64
var fire, _ = strconv.Atoi(os.Getenv("WORKLOAD_FIRE"))
var chance uint32 = 1

// Random, so that the work has no period that could be in step with a profiler's.
func some() int {
	chance = chance*1664525 + 1013904223
	return 1 + int(chance>>30)
}

//go:noinline
func burn(times int) {
	x := uint64(times)
	for i := 0; i < fire; i++ {
		os.Getppid()
	}
	for i := 0; i < times*500000; i++ {
		x = x*6364136223846793005 + 1
	}
	sink[x%64] += x
}

//go:noinline
func turn(times int, labels pprof.LabelSet) {
	pprof.Do(context.Background(), labels, func(context.Context) { burn(times * some()) })
}

//go:noinline
func nested() {
	pprof.Do(context.Background(), pprof.Labels("route", "/outer", "tenant", "one"), func(outer context.Context) {
		pprof.Do(outer, pprof.Labels("route", "/inner"), func(context.Context) {
			done := make(chan bool)
			go func() { // inherits them
				burn(some())
				done <- true
			}()
			<-done
		})
	})
}

//go:noinline
func bare() { burn(some()) }

//go:noinline
func tooLong() {
	turn(1, pprof.Labels("long", strings.Repeat("ä", 100), strings.Repeat("k", 60), "x", "short", "y"))
}

//go:noinline
func tooMany() {
	var all []string
	for i := 0; i < 12; i++ {
		all = append(all, fmt.Sprintf("key%02d", i), fmt.Sprint(i))
	}
	turn(1, pprof.Labels(all...))
}

// In a system call, which the goroutine's thread waits in: not the runtime, which would let the thread go.
//
//go:noinline
func wait() {
	pprof.Do(context.Background(), pprof.Labels("route", "/wait", "tenant", "three"), func(context.Context) {
		syscall.Nanosleep(&syscall.Timespec{Nsec: 1000000}, nil)
	})
	syscall.Nanosleep(&syscall.Timespec{Nsec: 1000000}, nil)
}

func main() {
	if len(os.Args) > 1 {
		file, err := os.Create(os.Args[1])
		if err != nil {
			panic(err)
		}
		defer file.Close()
		pprof.StartCPUProfile(file)
		defer pprof.StopCPUProfile()
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt)
	fmt.Printf("pid %d\nready\n", os.Getpid())
	fired := make(chan os.Signal, 1)
	signal.Notify(fired, syscall.SIGUSR1)
	if fire > 0 {
		<-fired
		ended <- os.Interrupt
	}
	for first := true; first || len(ended) == 0; first = false {
		turn(3, pprof.Labels("route", "/a", "tenant", "one"))
		turn(1, pprof.Labels("tenant", "two", "route", "/b"))
		turn(1, pprof.Labels())
		nested()
		bare()
		tooLong()
		tooMany()
		for i := 0; i <= fire; i++ {
			wait()
		}
	}
}
